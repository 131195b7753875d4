"""Search: from a decoder and a memory to sequences.

Decoders are used only through their protocol.
"""

from regard.decoding.beam import Beam, ConstrainedBeam
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.processors import NoRepeat, Prefix
from regard.decoding.sampling import greedy, sample

__all__ = [
    "Beam",
    "ConstrainedBeam",
    "Hypothesis",
    "LengthPenalty",
    "NoRepeat",
    "Prefix",
    "greedy",
    "sample",
]
