"""Mixtures: how often the examples of each training file come in an epoch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from random import Random
from typing import Annotated, Any, TypeVar

import numpy as np
from jaxtyping import Int
from pydantic import Field

from regard.data.stored import Stored
from regard.errors import InputError

Share = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Shares = dict[str, Share]
"""How often examples come in an epoch, by patterns of the names of their files."""
E = TypeVar("E")


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Sources of different weight, a part of `data:` sections. `mixture` says how often the training examples of a file
    come in an epoch, by a pattern of its name or path: `{news*: 0.5, own.csv: 3}`; the first pattern that fits counts,
    and other files come once. Of a share below 1 the same examples, chosen at random, come in each epoch. Examples that
    are held out for validation are left out before."""

    kind: str = ""
    mixture: Shares = field(default_factory=dict)

    def mixed(self, examples: Sequence[E], file: Callable[[E], str]) -> Sequence[E]:
        """The training examples of an epoch; those of a `file` are neighbours. Raises InputError for a pattern that
        fits no file, and if no example is left."""
        if not self.mixture:
            return examples
        spans = list(_spans(examples, file))
        shares = shares_of(self.mixture, [name for name, _, _ in spans])
        parts = [_sampled(first, last, shares[name]) for name, first, last in spans]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        if not len(rows):
            raise InputError(
                f"data.mixture is {self.mixture}: no example is left to train on; raise a share"
            )
        if isinstance(examples, Stored):
            whole: Any = examples.part(
                rows if examples.rows is None else examples.rows[rows],
                self._name(examples),
            )
            return whole
        return [examples[row] for row in rows.tolist()]

    def _name(self, examples: Stored[Any]) -> str:
        return f"{examples.name} mixed {sorted(self.mixture.items())}"


def shares_of(mixture: Mapping[str, float], files: Sequence[str]) -> dict[str, float]:
    """The share of each file. Raises InputError for a pattern that fits none."""
    found = {
        file: next((pattern for pattern in mixture if _fits(file, pattern)), None)
        for file in files
    }
    for pattern in mixture:
        if not any(_fits(file, pattern) for file in files):
            shown = ", ".join(files[:5]) + (", ..." if len(files) > 5 else "")
            raise InputError(
                f"data.mixture: {pattern!r} fits no training file; there are {shown}"
            )
    return {
        file: 1.0 if pattern is None else float(mixture[pattern])
        for file, pattern in found.items()
    }


def repeated(
    files: Sequence[str], mixture: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Files of running text as often as the mixture says, each with the share of its lines that is read, from the first
    line on: 1, or less of a file's last time. Raises InputError as `shares_of`, and if nothing is left."""
    found: list[tuple[str, float]] = []
    for file, share in shares_of(mixture, files).items():
        found += [(file, 1.0)] * int(share) + ([(file, share % 1)] if share % 1 else [])
    if not found:
        raise InputError(
            f"data.mixture is {dict(mixture)}: no text is left to train on; raise a share"
        )
    return found


def file_of(place: str) -> str:
    """The file of a place, `file:line`."""
    return place.rpartition(":")[0]


def _fits(file: str, pattern: str) -> bool:
    return fnmatchcase(file, pattern) or fnmatchcase(PurePath(file).name, pattern)


def _spans(
    examples: Sequence[E], file: Callable[[E], str]
) -> Iterator[tuple[str, int, int]]:
    """Each file with its first example and the one behind its last, found in steps that double and halve: a large set
    has few files."""
    first = 0
    while first < len(examples):
        name, step, low = file(examples[first]), 1, first
        while low + step < len(examples) and file(examples[low + step]) == name:
            low, step = low + step, 2 * step
        while step:
            if low + step < len(examples) and file(examples[low + step]) == name:
                low += step
            step //= 2
        yield name, first, low + 1
        first = low + 1


def _sampled(first: int, last: int, share: float) -> Int[np.ndarray, " row"]:
    """Rows as often as the share says: whole times, then a sample in order."""
    every = np.arange(first, last)
    random = np.random.RandomState(Random(f"mixture {first} {last}").getrandbits(32))
    sample = np.sort(random.permutation(every)[: round(share % 1 * len(every))])
    return np.concatenate([*[every] * int(share), sample])
