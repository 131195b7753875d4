"""Synthetic data sets: their sizes, and three sets without a common text."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

from regard.errors import InputError

MOST_TRIES = 1_000


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Examples for training, validation and test, as a function of `seed`.

    train: The number of training examples.
    valid: The number of validation examples.
    test: The number of test examples.
    seed: The seed of the examples.
    """

    kind: str
    train: int = 20_000
    valid: int = 500
    test: int = 1_000
    seed: int = 1

    most_train = 1_000_000
    most_held_out = 1_000_000

    def __post_init__(self) -> None:
        """Raise InputError for a set that is empty, except the test set, or too large."""
        most = self.most_train, self.most_held_out, self.most_held_out
        for name, size, least, largest in zip(
            ("train", "valid", "test"), self.sizes, (1, 1, 0), most, strict=True
        ):
            if not least <= size <= largest:
                raise InputError(
                    f"{self.kind}: {name} is {size}; expected {least} to {largest} "
                    "examples"
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
        """Raise InputError as `Synthetic` does, and for an empty range of lengths."""
        super().__post_init__()
        if not self.smallest <= self.least <= self.most:
            raise InputError(
                f"{self.kind}: least is {self.least} and most {self.most}; expected "
                f"{self.smallest} <= least <= most"
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
    """Generate training, validation and test examples without a common text.

    The test set comes first, so it depends on its size and the seed only.

    Args:
        sizes: The sizes of the three sets.
        seed: The seed.
        make: Makes an example of a set, 0, 1 or 2.
        kind: What the examples are, for messages.

    Raises:
        InputError: `make` does not give enough different texts.
    """
    texts: set[str] = set()
    train, valid, test = sets = [], [], []
    for number in (2, 1, 0):
        random = Random(f"{seed}/{number}")
        tries = 0
        while len(sets[number]) < sizes[number]:
            example = make(number, random)
            if example.text not in texts:
                texts.add(example.text)
                sets[number].append(example)
                tries = 0
                continue
            tries += 1
            if tries == MOST_TRIES:
                raise InputError(
                    f"{kind}: {sum(sizes):,} different ones could not be found; ask for "
                    "fewer, or longer ones"
                )
    return train, valid, test
