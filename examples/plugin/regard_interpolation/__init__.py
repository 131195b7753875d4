"""Curves from a few of their points: what a package of your own can add to regard."""
