"""Text to several texts: one encoder, and a decoder for each language."""
