"""Generated rows of letters to copy or reverse: a task with a known alignment at any length."""

from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import Literal

from regard.data.generated.synthetic import disjoint_sets
from regard.maps.links import Links

Order = Literal["copy", "reverse"]


@dataclass(frozen=True)
class Letters:
    """Letters separated by blanks, the output, and their alignment."""

    text: str
    answer: str
    links: Links


def generate(
    sizes: tuple[int, int, int], order: Order, lengths: tuple[int, int], seed: int
) -> tuple[list[Letters], ...]:
    """Training, validation and test rows without duplicates. `sizes` are the sizes of the three sets; lengths are
    uniform between the two `lengths`.

    Raises:
        InputError: there are too few different rows.
    """
    return disjoint_sets(
        sizes,
        seed,
        lambda part, random: make(random.randint(*lengths), order, random),
        "letters",
    )


def make(length: int, order: Order, random: Random) -> Letters:
    """Generate one row."""
    row = random.choices(ascii_lowercase, k=length)
    places = range(length) if order == "copy" else range(length - 1, -1, -1)
    answer = " ".join(row[place] for place in places)
    return Letters(
        " ".join(row),
        answer,
        frozenset((source, target) for target, source in enumerate(places)),
    )
