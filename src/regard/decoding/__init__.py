"""Search: from a decoder and a memory to sequences.

Decoders are used only through their protocol.
"""

from regard.decoding.beam import Beam
from regard.decoding.processors import NoRepeat, Prefix
from regard.decoding.sampling import Hypothesis, LengthPenalty, greedy, sample

__all__ = [
    "Beam",
    "Hypothesis",
    "LengthPenalty",
    "NoRepeat",
    "Prefix",
    "greedy",
    "sample",
]
