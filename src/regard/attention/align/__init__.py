"""From scores to weights.

Non-negative, zero where the mask forbids, usually summing to 1 over the keys.
"""

from regard.attention.align.hard import Hard, Monotonic, StraightThrough
from regard.attention.align.location import Addressing, LocalMonotonic, LocalPredictive
from regard.attention.align.soft import (
    Align,
    Aligned,
    AlignInput,
    Draw,
    Entmax15,
    Softmax,
    Sparsemax,
    entmax15,
    softmax,
    sparsemax,
)

__all__ = [
    "Addressing",
    "Align",
    "AlignInput",
    "Aligned",
    "Draw",
    "Entmax15",
    "Hard",
    "LocalMonotonic",
    "LocalPredictive",
    "Monotonic",
    "Softmax",
    "Sparsemax",
    "StraightThrough",
    "entmax15",
    "softmax",
    "sparsemax",
]
