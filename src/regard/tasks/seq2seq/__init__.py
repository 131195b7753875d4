"""Texts that become other texts: dates, translation, summaries."""
