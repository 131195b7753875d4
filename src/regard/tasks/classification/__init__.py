"""Telling the class of a text, or of two."""
