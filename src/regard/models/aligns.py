"""Alignments and histories by name, for configurations. Other packages add alignments under the entry points
`regard.aligns`.

Each name of an alignment stands for a function of the query width and a window size, which local alignments use.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.attention.align import (
    Align,
    Entmax15,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    Softmax,
    Sparsemax,
    StraightThrough,
)
from regard.attention.history import Coverage, History, LocationAware
from regard.config.registry import RegisteredName, Registry

ALIGNS = Registry(
    "regard.models",
    {
        "softmax": "aligns:softmax",
        "sparsemax": "aligns:sparsemax",
        "entmax": "aligns:entmax",
        "local-m": "aligns:local_m",
        "local-p": "aligns:local_p",
        "straight-through": "aligns:straight_through",
        "hard": "aligns:hard",
        "monotonic": "aligns:monotonic",
    },
    group="regard.aligns",
)
AlignName = Annotated[str, RegisteredName(ALIGNS)]
HistoryName = Literal["coverage", "location-aware"]


def softmax(query_width: int, window: int) -> Align:
    """exp(e) / sum exp(e)."""
    return Softmax()


def sparsemax(query_width: int, window: int) -> Align:
    """The projection of the scores onto the simplex."""
    return Sparsemax()


def entmax(query_width: int, window: int) -> Align:
    """Between softmax and sparsemax: alpha-entmax with alpha 1.5."""
    return Entmax15()


def local_m(query_width: int, window: int) -> Align:
    """A softmax in a window around the query's own position."""
    return LocalMonotonic(window)


def local_p(query_width: int, window: int) -> Align:
    """A softmax in a window around a position that the query predicts."""
    return LocalPredictive(query_width, query_width, window)


def straight_through(query_width: int, window: int) -> Align:
    """One sampled key, with the gradient of a softmax."""
    return StraightThrough()


def hard(query_width: int, window: int) -> Align:
    """One sampled key, with the gradient of its log-probability."""
    return Hard()


def monotonic(query_width: int, window: int) -> Align:
    """One key at or behind the last one."""
    return Monotonic()


@dataclass(frozen=True)
class HardSettings:
    """Hard alignment with its share of sequences that read softly in training (see `Hard`)."""

    name: Literal["hard"] = "hard"
    soft_share: Annotated[float, Field(ge=0, le=1)] = 0.0

    def make(self) -> Align:
        """The alignment."""
        return Hard(self.soft_share)


@dataclass(frozen=True)
class StraightThroughSettings:
    """Gumbel straight-through alignment with its temperature (see `StraightThrough`)."""

    name: Literal["straight-through"] = "straight-through"
    temperature: Annotated[float, Field(gt=0)] = 1.0

    def make(self) -> Align:
        """The alignment."""
        return StraightThrough(self.temperature)


@dataclass(frozen=True)
class MonotonicSettings:
    """Monotonic alignment with its initial offset and training noise (see `Monotonic`)."""

    name: Literal["monotonic"] = "monotonic"
    offset: float = -1.0
    noise: Annotated[float, Field(ge=0)] = 1.0

    def make(self) -> Align:
        """The alignment."""
        return Monotonic(self.offset, self.noise)


AlignChoice = AlignName | HardSettings | StraightThroughSettings | MonotonicSettings
"""A name, or a name with its own settings."""


def chosen_align(choice: AlignChoice, query_width: int, window: int) -> Align:
    """Make an alignment for queries of a width; only local ones use `window`."""
    return (
        ALIGNS[choice](query_width, window)
        if isinstance(choice, str)
        else choice.make()
    )


HISTORIES: dict[HistoryName | None, Callable[[int], History | None]] = {
    None: lambda width: None,
    "coverage": Coverage,
    "location-aware": LocationAware,
}
"""Histories by name, made for the hidden width of an additive score."""
