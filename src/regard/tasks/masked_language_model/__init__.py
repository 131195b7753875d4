"""Masked language models: they fill the blanks of texts, and embed words and texts."""
