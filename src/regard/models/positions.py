"""Positions by name, for configurations. Other packages add theirs under the entry points `regard.positions` and
`regard.relative_positions`.

Each name stands for a function of the width of the states and the largest number of positions, which gives the encoding
that is added to states. Names of relative positions, which add none, have a second function, of the number of heads and
their width.
"""

from typing import Annotated

from regard.attention.positions import (
    Alibi,
    BucketedBias,
    RelativeKeys,
    RelativePositions,
    Rotary,
)
from regard.config.registry import RegisteredName, Registry
from regard.nn.embeddings import (
    Integers,
    Learned,
    NoPositions,
    Positions,
    SinesThenCosines,
    Sinusoidal,
)

POSITIONS = Registry(
    "regard.models",
    {
        "sinusoidal": "positions:sinusoidal",
        "sines-then-cosines": "positions:sines_then_cosines",
        "learned": "positions:learned",
        "integers": "positions:integers",
        "none": "positions:none",
        "rotary": "positions:none",
        "alibi": "positions:none",
        "bucketed": "positions:none",
        "relative-keys": "positions:none",
    },
    group="regard.positions",
)
RELATIVE_POSITIONS = Registry(
    "regard.models",
    {
        "rotary": "positions:rotary",
        "alibi": "positions:alibi",
        "bucketed": "positions:bucketed",
        "relative-keys": "positions:relative_keys",
    },
    group="regard.relative_positions",
)
PositionsName = Annotated[str, RegisteredName(POSITIONS)]
UnboundedName = Annotated[str, RegisteredName(POSITIONS, without=("learned",))]
"""Positions that have no table, for sequences of any length."""
RelativeName = Annotated[str, RegisteredName(RELATIVE_POSITIONS)]


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


def relative_positions(
    name: PositionsName | None, heads: int, width: int
) -> RelativePositions | None:
    """The relative positions of this name for heads of this width; None for a name of absolute ones, and
    without a name."""
    return (
        RELATIVE_POSITIONS[name](heads, width)
        if name is not None and name in RELATIVE_POSITIONS
        else None
    )


def rotary(heads: int, width: int) -> RelativePositions:
    """Queries and keys turned by their positions."""
    return Rotary(width)


def alibi(heads: int, width: int) -> RelativePositions:
    """A fixed slope for each head."""
    return Alibi(heads)


def bucketed(heads: int, width: int) -> RelativePositions:
    """A learned number for each head and bucket of distances."""
    return BucketedBias(heads)


def relative_keys(heads: int, width: int) -> RelativePositions:
    """A learned vector for each distance."""
    return RelativeKeys(width)
