"""What can be trained: run files, those shipped with the package, those of other packages, and the user's own."""

from regard.runs.recipes.shipped import names, path_of

__all__ = ["names", "path_of"]
