"""From scores to weights: non-negative, zero where the mask forbids, usually summing to 1 over the keys."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.masks import Mask
from regard.shapes import Query, Scores, Weights


def softmax(scores: Scores, mask: Mask | Tensor | None = None) -> Weights:
    """a_i = exp(e_i) / sum_j exp(e_j) over the allowed keys; a row with no allowed key is zeros, value and gradient.

    The forbidden scores become the most negative finite number, not minus infinity, so that no NaN ever arises, not
    even inside the backward pass of a row that is all forbidden.
    """
    if mask is None:
        return torch.softmax(scores, -1)
    forbidden = ~(mask.dense() if isinstance(mask, Mask) else mask)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(forbidden, lowest), -1).masked_fill(forbidden, 0.0)


class Aligned(NamedTuple):
    """What an alignment gives: weights `(*batch, query, key)`, its state after this query, and a loss to add up."""

    weights: Tensor
    state: Any = None
    loss: Tensor | None = None


class Align(nn.Module, ABC):
    """Turns scores into weights. `query` is for alignments that place themselves by it; `state` is what an alignment
    carries from step to step: it comes in, goes out in `Aligned`, and is never kept on the module."""

    is_softmax = False
    """True when the weights are exactly `softmax(scores, mask)`, which a fused kernel may then compute unseen."""

    @abstractmethod
    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        """scores `(*batch, query, key)` -> weights of the same shape."""


class Softmax(Align):
    """Soft, global alignment (Bahdanau 2015, equation 6)."""

    is_softmax = True

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        return Aligned(softmax(scores, mask))
