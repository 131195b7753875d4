"""The setup of training: the result of a run file and its data."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from torch import nn

from regard.data.splits import Splits
from regard.data.stored import remembered
from regard.errors import InputError
from regard.tasks.summary import DataSummary
from regard.text import Tokenizer
from regard.training.objective import Objective

T = TypeVar("T")


@dataclass(frozen=True)
class Setup:
    """Everything that training needs. `tokenizers` are keyed by their files' names. `tests` are examples for the
    finished run's `evaluate`. `digest` identifies the training and validation data, `summary` is a line for the log.
    `files` are further values of the run, by the names of their JSON files. Parameters whose names begin with one of
    `fresh` are initialised when the run starts from a run of another task. `pretrained` maps a part of the model to the
    prefix of its parameters in the run that it is loaded from. `data` is the summary of what training reads, `simplest`
    a line on the simplest prediction for the validation examples, with which their figures compare, and `notes` are
    lines on the settings of training.
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
    simplest: str = ""
    notes: tuple[str, ...] = ()


def check_beam(beam: int, size: int, vocabulary: str) -> None:
    """Raises InputError for a beam that a vocabulary of this size cannot fill, before hours are spent on training."""
    if beam > size:
        raise InputError(
            f"search.beam is {beam}, more than the {size} entries of the {vocabulary}; lower it"
        )


def digest(parts: Iterable[str]) -> str:
    """SHA-256 of consecutive texts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode(errors="surrogatepass"))
    return found.hexdigest()


def digest_of_sets(splits: Splits[T], line: Callable[[T], str]) -> str:
    """The digest of the training and the validation examples, by a `line` of each; of a set on disk it is computed
    once."""
    valid = digest(map(line, splits.valid))
    return remembered(
        splits.train,
        f"digest {valid}",
        lambda: digest(map(line, chain(splits.train, splits.valid))),
    )


def digest_on_disk(
    splits: Splits[T],
    reading: str,
    decodable: Callable[[T], T],
    line: Callable[[T], str],
) -> str:
    """The digest of images on disk, by a `line` of each. All are read once as `decodable` reads them, and at later
    starts with the same `reading` no more. Raises InputError for an image that cannot be read."""

    def parts(images: Sequence[T]) -> Iterator[str]:
        return (line(decodable(each)) for each in images)

    valid, _ = (
        remembered(each, reading, lambda each=each: digest(parts(each)))
        for each in (splits.valid, splits.test)
    )
    both = chain(parts(splits.train), map(line, splits.valid))
    return remembered(splits.train, f"{reading} {valid}", lambda: digest(both))
