"""Search: from a decoder and a memory to sequences. Decoders are used only through their protocol."""

from regard.decoding.beam import Beam, DiverseBeam
from regard.decoding.constrained_beam import ConstrainedBeam
from regard.decoding.hypothesis import (
    BrevityPenalty,
    CoveragePenalty,
    Hypothesis,
    LengthPenalty,
)
from regard.decoding.logits_processors import NoRepeat, Prefix
from regard.decoding.sampling import greedy, sample

__all__ = [
    "Beam",
    "BrevityPenalty",
    "ConstrainedBeam",
    "CoveragePenalty",
    "DiverseBeam",
    "Hypothesis",
    "LengthPenalty",
    "NoRepeat",
    "Prefix",
    "greedy",
    "sample",
]
