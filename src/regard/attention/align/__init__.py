"""From scores to weights: non-negative, zero where the mask forbids, usually summing to 1 over the keys."""

from regard.attention.align.addressing import Addressing
from regard.attention.align.local import LocalMonotonic, LocalPredictive
from regard.attention.align.monotonic import Monotonic
from regard.attention.align.protocol import Align, Aligned, Draw
from regard.attention.align.sampled import Hard, StraightThrough
from regard.attention.align.soft import (
    Entmax15,
    SinkSoftmax,
    Softmax,
    Sparsemax,
    entmax15,
    softmax,
    sparsemax,
)

__all__ = [
    "Addressing",
    "Align",
    "Aligned",
    "Draw",
    "Entmax15",
    "Hard",
    "LocalMonotonic",
    "LocalPredictive",
    "Monotonic",
    "SinkSoftmax",
    "Softmax",
    "Sparsemax",
    "StraightThrough",
    "entmax15",
    "softmax",
    "sparsemax",
]
