"""Recipes: run files of this package, of other packages, and the user's own."""

from regard.runs.recipes.shipped import names, path_of

__all__ = ["names", "path_of"]
