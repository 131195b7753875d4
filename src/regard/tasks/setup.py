"""The setup of training: the result of a run file and its data."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.tasks.summary import DataSummary
from regard.text import Tokenizer
from regard.training.objective import Objective


@dataclass(frozen=True)
class Setup:
    """Everything that training needs. `tokenizers` are keyed by their files' names. `tests` are examples for the
    finished run's `evaluate`. `digest` identifies the training and validation data, `summary` is a line for the log.
    `files` are further values of the run, by the names of their JSON files. Parameters whose names begin with one of
    `fresh` are initialised when the run starts from a run of another task. `pretrained` maps a part of the model to the
    prefix of its parameters in the run that it is loaded from. `data` is the summary of what training reads.
    """

    model: nn.Module
    objective: Objective
    digest: str
    summary: str
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    tests: Sequence[Any] | Mapping[str, Sequence[Any]] = ()
    files: Mapping[str, Any] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    pretrained: Mapping[str, str] = field(default_factory=dict)
    data: DataSummary | None = None


def check_beam(beam: int, size: int, vocabulary: str) -> None:
    """Raises InputError for a beam that a vocabulary of this size cannot fill, before hours are spent on training."""
    if beam > size:
        raise InputError(f"search.beam is {beam}, more than the {size} entries of the {vocabulary}; lower it")


def digest(parts: Iterable[str]) -> str:
    """SHA-256 of consecutive texts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode(errors="surrogatepass"))
    return found.hexdigest()
