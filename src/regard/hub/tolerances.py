"""When two runtimes compute the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import RunError

SHAPES = (1, 1), (2, 7), (3, 64)
"""Texts and tokens of each with which an export is checked."""
CLOSE = 1e-4
"""How far numbers may differ, as a share of their median size: float32 holds seven digits."""


def as_transformers(folder: Path, kind: str) -> Any:
    """What is in a folder as transformers has it, of the class `kind`, a model in evaluation; None where that is not
    installed."""
    if find_spec("transformers") is None:
        return None
    import transformers

    with quiet(transformers.utils.logging):
        return getattr(transformers, kind).from_pretrained(folder, local_files_only=True)


@contextmanager
def quiet(log: Any) -> Iterator[None]:
    """Without progress bars and without reports of what is loaded, given what decides about these in transformers."""
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
    """What an export is checked against, where transformers is installed and where it is not."""
    return ["the files as regard reads them", *(["transformers"] if loaded else [])]


def compare(expected: Tensor, found: Tensor, out: Path) -> None:
    """Raises RunError where the two differ by more than `CLOSE` of the median size."""
    difference = float((expected - found).masked_fill(expected == found, 0.0).abs().max())  # also where infinite
    if not difference <= CLOSE * max(1.0, float(expected.abs().median())):
        raise RunError(f"{out}: what was exported differs from the run by up to {difference:.3g}; it is removed")
