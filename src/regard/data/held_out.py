"""A part of the examples that training does not see."""

from collections.abc import Sequence
from typing import TypeVar

from regard.errors import InputError

E = TypeVar("E")


def check_share(held_out: float, kind: str) -> None:
    """Raises InputError for a share that `spread` cannot hold out."""
    if not 0 < held_out <= 0.5:
        raise InputError(f"{kind}: held_out is {held_out}; expected a share above 0, at most 0.5")


def spread(examples: Sequence[E], share: float, what: str) -> tuple[list[E], Sequence[E]]:
    """What is left, and the share, which stand equally far from each other. Raises InputError where these are too few,
    with `what` they are."""
    every = round(1 / share)
    held = examples[every - 1 :: every]
    if not held:
        raise InputError(f"{what} are too few to hold some out; give valid")
    return [each for number, each in enumerate(examples, 1) if number % every], held
