"""Soft, global alignment: the softmax under a mask."""

from typing import Any

import torch
from torch import Tensor

from regard.attention.align.protocol import Align, Aligned
from regard.attention.masks import Mask
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


class Softmax(Align):
    """Soft, global alignment (Bahdanau 2015, equation 6)."""

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        return Aligned(softmax(scores, mask))
