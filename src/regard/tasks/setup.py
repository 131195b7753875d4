"""What a run file and its data become for training."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.errors import InputError
from regard.text import Tokenizer
from regard.training.objective import Objective


@dataclass(frozen=True)
class Setup:
    """Everything that training needs and everything that is known before it.

    `tokenizers` are keyed by the name of the file that holds each. `tests` are examples for the finished run's
    `evaluate`. `digest` is that of the training and validation data, `summary` a line about what is trained. `files`
    are further values that the run needs, by the names of their JSON files. Parameters whose names begin with one of
    `fresh` are initialised where the run starts from one of another task. `pretrained` maps a part of the model to the
    prefix of its parameters in the run that it is loaded from.
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
