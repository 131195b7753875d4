"""Import and export of models in the formats of other libraries."""

from regard.hub.folders import export_run, import_run

__all__ = ["export_run", "import_run"]
