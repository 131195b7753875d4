"""Search: from a decoder and a memory to sequences. Nothing here knows any decoder but by its protocol."""

from regard.decoding.beam import beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import LengthPenalty
from regard.decoding.sampling import greedy, sample

__all__ = ["Hypothesis", "LengthPenalty", "beam", "greedy", "sample"]
