"""A score by distance, and a model that reads the heights of near points with it."""

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Score


class Laplace(Score):
    """-|q - k|_1 / scale with a learned scale (Kim 2019, Attentive neural processes, 1901.05761)."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(scale).log())

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Compare queries `(*batch, query, width)` and keys `(*batch, key, width)`; return `(*batch, query, key)`."""
        return -(query[..., :, None, :] - key[..., None, :, :]).abs().sum(-1) / self.logarithm.exp()


def laplace(width: int, longest: int) -> Score:
    """Return the score by its name in run files, for queries and keys of this width."""
    return Laplace(width**0.5)


class Interpolator(nn.Module):
    """The height at a place: the mean of the heights of known points, weighted by their nearness."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.attend = Attend(Laplace(scale))

    def forward(self, place: Tensor, points: Tensor) -> Tensor:
        """Places `(batch, query)` and points `(batch, point, 2)` -> heights `(batch, query)`."""
        return self.attend(place[..., None], Memory(points[..., :1], points[..., 1:]))[..., 0]
