"""From scores to weights: non-negative, zero where the mask forbids, usually summing to 1 over the keys."""

from regard.align.addressing import Addressing
from regard.align.local import LocalMonotonic, LocalPredictive
from regard.align.monotonic import Monotonic
from regard.align.protocol import Align, Aligned, Draw
from regard.align.sampled import Hard, StraightThrough
from regard.align.soft import Softmax, softmax
from regard.align.sparse import Entmax15, Sparsemax, entmax15, sparsemax

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
    "Softmax",
    "Sparsemax",
    "StraightThrough",
    "entmax15",
    "softmax",
    "sparsemax",
]
