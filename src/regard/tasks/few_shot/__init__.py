"""Telling classes after a few examples of each: episodes."""
