"""Compare the outputs of two runtimes."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import RunError

SHAPES = (1, 1), (2, 7), (3, 64)
"""Numbers of texts and of tokens per text in each check of an export."""
CLOSE = 1e-4
"""Largest difference as a share of the median magnitude; float32 holds seven digits."""


def as_transformers(folder: Path, kind: str) -> Any:
    """Load a folder by transformers' class `kind`, a model in evaluation mode; None without transformers."""
    if find_spec("transformers") is None:
        return None
    import transformers

    with quiet(transformers.utils.logging):
        return getattr(transformers, kind).from_pretrained(
            folder, local_files_only=True
        )


@contextmanager
def quiet(log: Any) -> Iterator[None]:
    """Silence the progress bars and reports of transformers' module `log`."""
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def checked_against(loaded: bool) -> list[str]:
    """Return the names of the runtimes that checked an export."""
    return ["the files as regard reads them", *(["transformers"] if loaded else [])]


def compare(expected: Tensor, found: Tensor, out: Path) -> None:
    """Raises RunError for a difference above `CLOSE` of the median magnitude."""
    difference = float(
        (expected - found).masked_fill(expected == found, 0.0).abs().max()
    )  # also where infinite
    if not difference <= CLOSE * max(1.0, float(expected.abs().median())):
        raise RunError(
            f"{out}: the export differs from the run by up to {difference:.3g}; it is removed"
        )
