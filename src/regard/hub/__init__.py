"""Models from and to the forms in which others publish them."""

from regard.hub.folders import export_run, import_run

__all__ = ["export_run", "import_run"]
