"""Generated rows of letters, to be copied or turned round: a task whose alignment is known at any length."""

from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Literal

from regard.data.generated.synthetic import disjoint_sets
from regard.maps.links import Links

Order = Literal["copy", "reverse"]


@dataclass(frozen=True)
class Letters:
    """Letters with blanks between, what they become, and which belong together."""

    text: str
    answer: str
    links: Links


def generate(
    sizes: tuple[int, int, int], order: Order, lengths: tuple[int, int], seed: int
) -> tuple[list[Letters], ...]:
    """Training, validation and test rows, as many as `sizes` says, of lengths drawn evenly between the two given, with
    no row in common.

    Raises:
        InputError: there are not so many different rows.
    """
    return disjoint_sets(sizes, seed, lambda part, random: make(random.randint(*lengths), order, random), "letters")


def make(length: int, order: Order, random: Random) -> Letters:
    """One row."""
    row = random.choices(ascii_lowercase, k=length)
    places = range(length) if order == "copy" else range(length - 1, -1, -1)
    answer = " ".join(row[place] for place in places)
    return Letters(" ".join(row), answer, frozenset((source, target) for target, source in enumerate(places)))
