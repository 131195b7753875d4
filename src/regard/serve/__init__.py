"""Trained runs over HTTP: a page to look at them, and a small interface in JSON."""
