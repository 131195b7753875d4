"""Texts with blanks: models that fill them in, and whose states stand for words and texts."""
