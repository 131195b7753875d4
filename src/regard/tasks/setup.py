"""What a run file becomes once its data is read."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.text import Tokenizer
from regard.training.task import Task


@dataclass(frozen=True)
class Job:
    """Everything that training needs and everything that is known before it.

    `tokenizers` go by the name of the file that keeps each, `tests` are what the finished run is measured on, as its
    `evaluate` takes them, `digest` is of all that is learned from and validated on, `summary` says in a line what is
    about to be trained. `kept` is what else the run must know, by the name of its JSON file. Parts of the model whose
    names begin as one of `fresh` are new where the run starts from one of another task. `taken` are the parts of the
    model that have the weights of another run, with how the names of these begin there.
    """

    model: nn.Module
    task: Task
    digest: str
    summary: str
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    tests: Sequence[Any] | Mapping[str, Sequence[Any]] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)


def check_beam(beam: int, size: int, vocabulary: str) -> None:
    """Raises InputError for a beam that a vocabulary of this size cannot fill, before hours are spent on training."""
    if beam > size:
        raise InputError(f"search.beam is {beam}, more than the {size} entries of the {vocabulary}; lower it")


def digest(parts: Iterable[str]) -> str:
    """SHA-256 of texts, one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode(errors="surrogatepass"))
    return found.hexdigest()
