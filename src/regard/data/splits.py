"""The three sets of a run, and examples held out from training."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Int

from regard.errors import InputError

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


@dataclass(frozen=True)
class Splits(Generic[E_co]):
    """The examples for training, for the choice of the best checkpoint, and for the final evaluation. `test` may be
    empty."""

    train: Sequence[E_co]
    valid: Sequence[E_co]
    test: Sequence[E_co] = ()

    @property
    def named(self) -> dict[str, Sequence[E_co]]:
        """The three sets by their names."""
        return {"train": self.train, "valid": self.valid, "test": self.test}


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Validation examples from the training set, a part of `data:` sections: without `valid`, the share `held_out` of
    the training examples, chosen at random by `split_seed`. Examples of one group are all in one set.

    held_out: The share of the training examples that is held out where there is no `valid`.
    split_seed: The seed of the choice of held out examples.
    """

    kind: str = ""
    held_out: float = 0.1
    split_seed: int = 1

    def __post_init__(self) -> None:
        check_share(self.held_out, "data")

    def hold_out(
        self,
        examples: Sequence[E],
        what: str,
        group: Callable[[E], Hashable] | None = None,
    ) -> tuple[list[E], list[E]]:
        """The examples to train on and those held out, each in their order. `what` describes the examples in messages.
        Raises InputError if there are too few groups."""
        names = (
            list(range(len(examples)))
            if group is None
            else [group(each) for each in examples]
        )
        sets: tuple[list[E], list[E]] = ([], [])
        for each, held in zip(examples, self.held(names, what), strict=True):
            sets[held].append(each)
        return sets

    def held(self, names: Sequence[Hashable], what: str) -> list[bool]:
        """Whether each example is held out, by the names of their groups. Raises InputError as `hold_out` does."""
        groups = list(dict.fromkeys(names))
        Random(f"held out {self.split_seed}").shuffle(groups)
        counts: dict[Hashable, int] = {}
        for name in names:
            counts[name] = counts.get(name, 0) + 1
        held: set[Hashable] = set()
        count = 0
        while groups and count < self.held_out * len(names):
            name = groups.pop()
            held.add(name)
            count += counts[name]
        if not groups:
            raise too_few(what)
        return [name in held for name in names]


def check_share(held_out: float, kind: str) -> None:
    """Raises InputError for a share that cannot be held out."""
    if not 0 < held_out <= 0.5:
        raise InputError(
            f"{kind}: held_out is {held_out}; expected a share above 0, at most 0.5"
        )


def spread(examples: Sequence[E], share: float, what: str) -> tuple[list[E], list[E]]:
    """Hold out a share of the examples, evenly spaced. Returns the rest and those held out. Raises InputError if there
    are too few; `what` describes them in the message."""
    rest, held = spread_rows(len(examples), share, what)
    return [examples[row] for row in rest.tolist()], [
        examples[row] for row in held.tolist()
    ]


def spread_rows(
    count: int, share: float, what: str
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " held"]]:
    """The rows of so many examples that `spread` keeps, and those that it holds out. Raises InputError as it does."""
    held = np.arange(1, count + 1) % round(1 / share) == 0
    if not held.any():
        raise too_few(what)
    return np.flatnonzero(~held), np.flatnonzero(held)


def too_few(what: str) -> InputError:
    """The error where nothing can be held out."""
    return InputError(f"{what} are too few to hold some out; give data.valid")
