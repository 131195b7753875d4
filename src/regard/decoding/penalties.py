"""How a search compares hypotheses: by length, and by how much of the source they have read."""

from dataclasses import dataclass

import torch

from regard.shapes import Float

LEAST = 1e-6
"""A source position that was never read counts as read so much: its logarithm is finite."""


@dataclass(frozen=True)
class LengthPenalty:
    """Divides a log-probability by ((5 + length) / 6)^alpha (Wu 2016, equation 14); alpha 0 leaves it alone.

    The length counts END.
    """

    alpha: float = 0.0

    def __call__(self, log_probability: float, length: int) -> float:
        return log_probability / ((5 + length) / 6) ** self.alpha


@dataclass(frozen=True)
class CoveragePenalty:
    """beta * sum_i log(min(sum_t a_ti, 1)) over the positions of the source (Wu 2016, 1609.08144, equation 14): 0 for a
    hypothesis that has read everything, END included, and less for one that has left something out."""

    beta: float

    def __call__(self, read: Float[torch.Tensor, " source"]) -> float:
        return self.beta * float(read.clamp(LEAST, 1.0).log().sum())
