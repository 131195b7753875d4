"""Soft, global alignments: the softmax under a mask, and sparse relatives that give most keys a weight of exactly 0."""

from typing import Any

import torch
from torch import Tensor

from regard.attention.align.protocol import Align, Aligned
from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores, Weights


def softmax(scores: Scores, mask: Mask | Tensor | None = None) -> Weights:
    """a_i = exp(e_i) / sum_j exp(e_j) over the allowed keys. A row with no allowed key is zeros, in value and gradient.

    Forbidden scores become the lowest finite number, not minus infinity. No NaN arises then, not even in the backward
    pass of a row with no allowed key.
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


def sparsemax(scores: Float[Tensor, "*batch key"], mask: Mask | Tensor | None = None) -> Float[Tensor, "*batch key"]:
    """Project the scores onto the simplex, a_i = max(e_i - tau, 0) (Martins 2016, 1602.02068, algorithm 1).

    A row with no allowed key is zeros, in value and gradient. The threshold tau is a sum over the keys above it, which
    gives exact gradients of every order.
    """
    if not scores.shape[-1]:
        return scores
    below, forbidden = _below_the_best(scores, mask, 2.0)
    ordered = below.sort(-1, descending=True).values
    total, count = ordered.cumsum(-1), torch.arange(1, ordered.shape[-1] + 1, device=scores.device)
    support = (1 + count * ordered > total).sum(-1, keepdim=True)
    tau = (total.gather(-1, support - 1) - 1) / support
    return _without((below - tau).relu(), forbidden)


def entmax15(scores: Float[Tensor, "*batch key"], mask: Mask | Tensor | None = None) -> Float[Tensor, "*batch key"]:
    """a_i = max(e_i / 2 - tau, 0)^2, halfway between softmax and sparsemax (Peters 2019, 1905.05702, algorithm 2).

    A row with no allowed key is zeros, in value and gradient.
    """
    if not scores.shape[-1]:
        return scores
    below, forbidden = _below_the_best(scores / 2, mask, 2.0)
    ordered = below.sort(-1, descending=True).values
    count = torch.arange(1, ordered.shape[-1] + 1, device=scores.device)
    sums, squares = ordered.cumsum(-1), ordered.square().cumsum(-1)
    with torch.no_grad():
        spread = squares - sums.square() / count
        support = (sums / count - ((1 - spread) / count).clamp(min=0).sqrt() <= ordered).sum(-1, keepdim=True)
    mean = sums.gather(-1, support - 1) / support
    spread = squares.gather(-1, support - 1) - mean.square() * support
    tau = mean - ((1 - spread) / support).sqrt()
    return _without((below - tau).relu().square(), forbidden)


class Sparsemax(Align):
    """Sparse alignment by `sparsemax`."""

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        return Aligned(sparsemax(scores, mask))


class Entmax15(Align):
    """Sparse alignment by `entmax15`."""

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        return Aligned(entmax15(scores, mask))


def _below_the_best(scores: Tensor, mask: Mask | Tensor | None, deepest: float) -> tuple[Tensor, Tensor | None]:
    """How far each score lies below the row's best allowed one, at most `deepest`, where the weight is 0 already; and
    which keys are forbidden."""
    forbidden = None
    if mask is not None:
        forbidden = ~(mask.dense() if isinstance(mask, Mask) else mask)
        scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return (scores - scores.detach().amax(-1, keepdim=True)).clamp(min=-deepest), forbidden


def _without(weights: Tensor, forbidden: Tensor | None) -> Tensor:
    return weights if forbidden is None else weights.masked_fill(forbidden, 0.0)
