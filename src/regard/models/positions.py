"""Positions by name, for configurations. Other packages add theirs under the entry points `regard.positions`.

Each name stands for a function of the width of the states and the largest number of positions.
"""

from typing import Annotated

from regard.config.registry import RegisteredName, Registry
from regard.nn.embeddings import Integers, Learned, NoPositions, Positions, SinesThenCosines, Sinusoidal

POSITIONS = Registry(
    "regard.models",
    {
        "sinusoidal": "positions:sinusoidal",
        "sines-then-cosines": "positions:sines_then_cosines",
        "learned": "positions:learned",
        "integers": "positions:integers",
        "none": "positions:none",
    },
    group="regard.positions",
)
PositionsName = Annotated[str, RegisteredName(POSITIONS)]


def sinusoidal(width: int, longest: int) -> Positions:
    """Sines and cosines in turn."""
    return Sinusoidal()


def sines_then_cosines(width: int, longest: int) -> Positions:
    """All sines before all cosines."""
    return SinesThenCosines()


def learned(width: int, longest: int) -> Positions:
    """A learned vector for each position."""
    return Learned(longest, width)


def integers(width: int, longest: int) -> Positions:
    """Multiples of one learned direction."""
    return Integers(width)


def none(width: int, longest: int) -> Positions:
    """No positions."""
    return NoPositions()
