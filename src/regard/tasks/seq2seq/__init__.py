"""Sequence-to-sequence on texts: dates, translation, summaries."""
