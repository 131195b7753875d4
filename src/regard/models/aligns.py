"""The alignments and histories that a configuration can name."""

from collections.abc import Callable
from typing import Literal

from regard.align import (
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
from regard.history import Coverage, History, LocationAware

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

HISTORIES: dict[HistoryName | None, Callable[[int], History | None]] = {
    None: lambda width: None,
    "coverage": Coverage,
    "location-aware": LocationAware,
}
"""Each is made for the hidden width of an additive score."""
