"""How a search compares hypotheses: by length, and by how much of the source they have read."""

from dataclasses import dataclass

import torch

from regard.shapes import Float

LEAST = 1e-6
"""A source position that was never read counts as read so much: its logarithm is finite."""


@dataclass(frozen=True)
class LengthPenalty:
    """Divides a log-probability by ((offset + length) / (offset + 1))^alpha; the offset is 5 in Wu 2016, equation 14,
    and with 0 it is divided by length^alpha. Alpha 0 leaves it alone.

    The length counts END.
    """

    alpha: float = 0.0
    offset: float = 5.0

    def __call__(self, log_probability: float, length: int) -> float:
        return log_probability / ((self.offset + length) / (self.offset + 1)) ** self.alpha


@dataclass(frozen=True)
class CoveragePenalty:
    """beta * sum_i log(min(sum_t a_ti, 1)) over the positions of the source (Wu 2016, 1609.08144, equation 14): 0 for a
    hypothesis that has read everything, END included, and less for one that has left something out."""

    beta: float

    def __call__(self, read: Float[torch.Tensor, " source"]) -> float:
        return self.beta * float(read.clamp(LEAST, 1.0).log().sum())
