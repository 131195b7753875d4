"""Telling the class of an image."""
