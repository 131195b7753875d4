"""Train, run and look inside attention models.

Attention as a soft dictionary lookup, trained on your data, open to inspection.

Importing this loads nothing heavy; the names below are fetched when they are first
used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from regard.version import VERSION as __version__

if TYPE_CHECKING:
    from regard.attention import attend
    from regard.attention.intervene import intervene
    from regard.attention.record import record
    from regard.hub.open_run import show
    from regard.hub.similarity import similarity
    from regard.runs.interface import fit, train
    from regard.runs.run_file import load
    from regard.training.objectives import Supervised

__all__ = [
    "Supervised",
    "__version__",
    "attend",
    "fit",
    "intervene",
    "load",
    "record",
    "show",
    "similarity",
    "train",
]

HOMES = {
    "Supervised": "regard.training.objectives",
    "attend": "regard.attention",
    "fit": "regard.runs.interface",
    "intervene": "regard.attention.intervene",
    "load": "regard.runs.run_file",
    "record": "regard.attention.record",
    "show": "regard.hub.open_run",
    "similarity": "regard.hub.similarity",
    "train": "regard.runs.interface",
}


def __getattr__(name: str) -> object:
    """Import one of the names above.

    Raises:
        AttributeError: There is no such name.
    """
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
