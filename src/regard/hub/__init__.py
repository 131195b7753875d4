"""Import and export of models in the formats of other libraries.

Importing this loads no format; the names below are fetched when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.hub.exporting import export_run
    from regard.hub.importing import import_run

__all__ = ["export_run", "import_run"]


def __getattr__(name: str) -> object:
    """Return one of the names above; raise AttributeError for any other."""
    if name == "export_run":
        from regard.hub.exporting import export_run

        return export_run
    if name == "import_run":
        from regard.hub.importing import import_run

        return import_run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
