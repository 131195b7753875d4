"""The three sets of a run, and the choice of validation examples from the training set."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from regard.errors import InputError

E_co = TypeVar("E_co", covariant=True)
Share = Annotated[float, Field(gt=0, le=0.5)]
Tail = Annotated[float, Field(gt=0, lt=1)]
"""The share of examples, and of running text, that may be held out."""


@dataclass(frozen=True)
class Splits(Generic[E_co]):
    """The examples for training, for the choice of a checkpoint and for the test.

    Attributes:
        train: Examples to train on.
        valid: Examples that choose the best checkpoint.
        test: Examples of the final evaluation; may be empty.
    """

    train: Sequence[E_co]
    valid: Sequence[E_co]
    test: Sequence[E_co] = ()

    @property
    def by_name(self) -> dict[str, Sequence[E_co]]:
        """The three sets by their names."""
        return {"train": self.train, "valid": self.valid, "test": self.test}


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Validation examples from the training set, a part of `data:` sections.

    Without `valid`, the share `held_out` of the training examples is chosen at random.
    Examples of one group are all in one set.

    Attributes:
        held_out: The share of the training examples that is held out where there is no
            `valid`.
        split_seed: The seed of the choice of held out examples.
    """

    kind: str = ""
    held_out: Share = 0.1
    split_seed: int = 1


def choose_groups(groups: Sequence[Hashable], share: float, seed: int) -> list[int]:
    """Choose whole groups at random until they have the share of all rows.

    Returns:
        The rows of the chosen groups, in ascending order.
    """
    counts = Counter(groups)
    names = list(counts)
    Random(f"held out {seed}").shuffle(names)
    chosen: set[Hashable] = set()
    size = 0
    while names and size < share * len(groups):
        name = names.pop()
        chosen.add(name)
        size += counts[name]
    return [row for row, name in enumerate(groups) if name in chosen]


def choose_from_strata(strata: Sequence[Any], share: float, seed: int) -> list[int]:
    """Choose rows at random such that each stratum gives its share.

    Shuffled rows are sorted by stratum and taken at equal distances. The only row of a
    stratum stays in training, unless most strata have a single row, as numbers do.

    Returns:
        The chosen rows, in ascending order.
    """
    count = len(strata)
    counts = Counter(strata)
    rows = [row for row in range(count) if counts[strata[row]] > 1]
    if 2 * len(rows) < count:
        rows = list(range(count))
    Random(f"held out {seed}").shuffle(rows)
    rows.sort(key=strata.__getitem__)
    number = min(len(rows), math.ceil(share * count))
    distance = len(rows) / max(1, number)
    return sorted(rows[int((index + 0.5) * distance)] for index in range(number))


def too_few(name: str) -> InputError:
    """Return the error where nothing can be held out."""
    return InputError(f"{name} are too few to hold some out; give data.valid")
