"""Telling of images: a caption for each, and where each word of it looked."""
