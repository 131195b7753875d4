"""Generated sets that have no text in common."""

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

from regard.errors import InputError

_MOST_TRIES = 1_000


@runtime_checkable
class Example(Protocol):
    """What is told from others by its text."""

    @property
    def text(self) -> str: ...


T = TypeVar("T", bound=Example)


def distinct_sets(
    sizes: tuple[int, int, int], seed: int, make: Callable[[int, Random], T], kind: str
) -> tuple[list[T], list[T], list[T]]:
    """Training, validation and test examples, as many as `sizes` says, each text once. `make` is told which of the
    three it makes one for, 0, 1 or 2. The test set is made first: it depends on its size and the seed alone.

    Raises:
        InputError: so many different ones could not be found.
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
