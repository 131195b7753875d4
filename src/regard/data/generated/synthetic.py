"""Synthetic data sets: their sizes, and three sets without a common text."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

from regard.errors import InputError

_MOST_TRIES = 1_000


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Examples for training, validation and test, as a function of `seed`."""

    kind: str
    train: int = 20_000
    """The number of training examples."""
    valid: int = 500
    """The number of validation examples."""
    test: int = 1_000
    """The number of test examples."""
    seed: int = 1
    """The seed of the examples."""

    most_train = 1_000_000
    most_held_out = 1_000_000

    def __post_init__(self) -> None:
        """Raises InputError for an empty set other than the test set, and for a set that is too large."""
        for name, least, most in (
            ("train", 1, self.most_train),
            ("valid", 1, self.most_held_out),
            ("test", 0, self.most_held_out),
        ):
            size = getattr(self, name)
            if not least <= size <= most:
                raise InputError(
                    f"{self.kind}: {name} is {size}; expected {least} to {most} examples"
                )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of the three sets."""
        return self.train, self.valid, self.test


@dataclass(frozen=True, kw_only=True)
class SyntheticOfLengths(Synthetic):
    """Examples of length `least` to `most`; `smallest` is the minimum of `least`."""

    least: int = 1
    most: int = 20

    smallest = 1

    def __post_init__(self) -> None:
        """Raises InputError as `Synthetic` does, and for an empty range of lengths."""
        super().__post_init__()
        if not self.smallest <= self.least <= self.most:
            raise InputError(
                f"{self.kind}: least is {self.least} and most {self.most}; expected {self.smallest} <= least <= most"
            )


@runtime_checkable
class Example(Protocol):
    """An example that is identified by its text."""

    @property
    def text(self) -> str: ...


T = TypeVar("T", bound=Example)


def disjoint_sets(
    sizes: tuple[int, int, int], seed: int, make: Callable[[int, Random], T], kind: str
) -> tuple[list[T], list[T], list[T]]:
    """Generate training, validation and test examples without a common text. `sizes` are the sizes of the three sets.
    `make` receives the index of the set (0, 1 or 2) and a generator. The test set comes first, so it depends on its
    size and the seed only.

    Raises:
        InputError: `make` does not give enough different texts.
    """
    seen: set[str] = set()
    train, valid, test = [], [], []
    for part, found in ((2, test), (1, valid), (0, train)):
        random, tries = Random(f"{seed}/{part}"), 0
        while len(found) < sizes[part]:
            example = make(part, random)
            tries = tries + 1 if example.text in seen else 0
            if tries == _MOST_TRIES:
                raise InputError(
                    f"{kind}: {sum(sizes):,} different ones could not be found; ask for fewer, or longer ones"
                )
            if not tries:
                seen.add(example.text)
                found.append(example)
    return train, valid, test
