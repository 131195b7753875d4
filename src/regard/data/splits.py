"""The three sets of a run, and examples held out from training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


def check_share(held_out: float, kind: str) -> None:
    """Raises InputError for a share that `spread` cannot hold out."""
    if not 0 < held_out <= 0.5:
        raise InputError(f"{kind}: held_out is {held_out}; expected a share above 0, at most 0.5")


def spread(examples: Sequence[E], share: float, what: str) -> tuple[list[E], Sequence[E]]:
    """Hold out a share of the examples, evenly spaced. Returns the rest and those held out. Raises InputError if there
    are too few; `what` describes them in the message."""
    every = round(1 / share)
    held = examples[every - 1 :: every]
    if not held:
        raise InputError(f"{what} are too few to hold some out; give valid")
    return [each for number, each in enumerate(examples, 1) if number % every], held
