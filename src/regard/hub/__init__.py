"""Import and export of models in the formats of other libraries. Importing this loads no format; the names below are
fetched when they are first used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.hub.folders import export_run, import_run

__all__ = ["export_run", "import_run"]


def __getattr__(name: str) -> object:
    """One of the names above. Raises AttributeError for any other."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from regard.hub import folders

    return getattr(folders, name)
