"""The alignments and histories that a configuration can name."""

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

AlignName = Literal["softmax", "sparsemax", "entmax", "local-m", "local-p", "straight-through", "hard", "monotonic"]

HistoryName = Literal["coverage", "location-aware"]

ALIGNS: dict[AlignName, Callable[[int, int], Align]] = {
    "softmax": lambda query_width, window: Softmax(),
    "sparsemax": lambda query_width, window: Sparsemax(),
    "entmax": lambda query_width, window: Entmax15(),
    "local-m": lambda query_width, window: LocalMonotonic(window),
    "local-p": lambda query_width, window: LocalPredictive(query_width, query_width, window),
    "straight-through": lambda query_width, window: StraightThrough(),
    "hard": lambda query_width, window: Hard(),
    "monotonic": lambda query_width, window: Monotonic(),
}
"""Each is made for queries of a width; `window` is for the local ones alone."""


@dataclass(frozen=True)
class HardSettings:
    """Hard draws, with the share of sequences that in training read softly (see `Hard`)."""

    name: Literal["hard"] = "hard"
    soft_share: Annotated[float, Field(ge=0, le=1)] = 0.0

    def make(self) -> Align:
        """The alignment."""
        return Hard(self.soft_share)


@dataclass(frozen=True)
class StraightThroughSettings:
    """Gumbel draws, with the temperature of their gradient (see `StraightThrough`)."""

    name: Literal["straight-through"] = "straight-through"
    temperature: Annotated[float, Field(gt=0)] = 1.0

    def make(self) -> Align:
        """The alignment."""
        return StraightThrough(self.temperature)


@dataclass(frozen=True)
class MonotonicSettings:
    """Monotonic reads, with their offset at the start and the noise of training (see `Monotonic`)."""

    name: Literal["monotonic"] = "monotonic"
    offset: float = -1.0
    noise: Annotated[float, Field(ge=0)] = 1.0

    def make(self) -> Align:
        """The alignment."""
        return Monotonic(self.offset, self.noise)


AlignChoice = AlignName | HardSettings | StraightThroughSettings | MonotonicSettings
"""A name alone, or with numbers of its own."""


def chosen_align(choice: AlignChoice, query_width: int, window: int) -> Align:
    """For queries of a width; `window` is for the local ones alone."""
    return ALIGNS[choice](query_width, window) if isinstance(choice, str) else choice.make()


HISTORIES: dict[HistoryName | None, Callable[[int], History | None]] = {
    None: lambda width: None,
    "coverage": Coverage,
    "location-aware": LocationAware,
}
"""Each is made for the hidden width of an additive score."""
