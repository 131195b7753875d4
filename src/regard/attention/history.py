"""Features of past weights, added to a score's prepared keys.

The past is a tensor `(*batch, key)`. It travels with the alignment's state and is never stored on the module.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from regard.shapes import Float

Past = Float[Tensor, "*batch key"]
Addition = Float[Tensor, "*batch key width"]


class History(nn.Module, ABC):
    """Features of each key from the weights of earlier queries."""

    width: int | None = None
    """Width of the prepared keys that the features are added to; None if it is not known."""

    @abstractmethod
    def forward(self, past: Past) -> Addition:
        """The features to add to the prepared keys, `(*batch, key, width)`."""

    @abstractmethod
    def after(self, past: Past, weights: Past) -> Past:
        """The past after one more query with these weights."""


class Coverage(History):
    """w_c c_i, where c_i is the total weight of key i so far (See 2017, 1704.04368, equations 10 and 11).

    Args:
        width: width of the prepared keys, the hidden width of an additive score.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def forward(self, past: Past) -> Addition:
        return past[..., None] * self.weight

    def after(self, past: Past, weights: Past) -> Past:
        return past + weights


class LocationAware(History):
    """U f_i, where f = F * a_{t-1} convolves the previous query's weights (Chorowski 2015, 1506.07503, equation 8).

    Args:
        width: width of the prepared keys, the hidden width of an additive score.
        filters, kernel: number and length of the filters F; the length is odd.
    """

    def __init__(self, width: int, filters: int = 10, kernel: int = 21):
        super().__init__()
        if not kernel % 2:
            raise ValueError(f"kernel is {kernel}; it must be odd, so that it has a middle")
        self.width = width
        self.filters = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.linear = nn.Linear(filters, width, bias=False)

    def forward(self, past: Past) -> Addition:
        if not past.numel():
            return past.new_zeros(*past.shape, self.linear.out_features)
        features = self.filters(past.reshape(-1, 1, past.shape[-1])).mT
        return self.linear(features).view(*past.shape, -1)

    def after(self, past: Past, weights: Past) -> Past:
        return weights
