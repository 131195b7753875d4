"""Soft, global alignments: the softmax under a mask, and sparse relatives that give most keys a weight of exactly 0."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.align.protocol import Align, Aligned
from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores, Weights, wide


def softmax(scores: Scores, mask: Mask | Tensor | None = None) -> Weights:
    """a_i = exp(e_i) / sum_j exp(e_j) over the allowed keys. A row with no allowed key is zeros, in value and gradient.

    Forbidden scores become the lowest finite number, not minus infinity. No NaN arises then, not even in the backward
    pass of a row with no allowed key.
    """
    if mask is None:
        return torch.softmax(scores, -1)
    forbidden = ~(mask.dense() if isinstance(mask, Mask) else mask)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(forbidden, lowest), -1).masked_fill(
        forbidden, 0.0
    )


class Softmax(Align):
    """Soft, global alignment (Bahdanau 2015, equation 6)."""

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        return Aligned(softmax(scores, mask))


class SinkSoftmax(Align):
    """a_i = exp(e_i) / (exp(s) + sum_j exp(e_j)), where s is a learned score of nothing for each head (gpt-oss, OpenAI
    2025, 2508.10925), so that rows sum to less than 1.

    Args:
        heads: number of heads; None for a lookup without heads.
    """

    def __init__(self, heads: int | None = None):
        super().__init__()
        self.heads = heads
        self.sink = nn.Parameter(torch.zeros(() if heads is None else (heads, 1, 1)))

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        sink = self.sink.to(scores.dtype).expand(*scores.shape[:-1], 1)
        allowed = (
            None if mask is None else functional.pad(mask.dense(), (0, 1), value=True)
        )
        return Aligned(softmax(torch.cat([scores, sink], -1), allowed)[..., :-1])


def sparsemax(
    scores: Float[Tensor, "*batch key"], mask: Mask | Tensor | None = None
) -> Float[Tensor, "*batch key"]:
    """Project the scores onto the simplex, a_i = max(e_i - tau, 0) (Martins 2016, 1602.02068, algorithm 1).

    A row with no allowed key is zeros, in value and gradient. A row with NaN or infinity among its allowed scores is
    NaN, as in `softmax`. The threshold tau is a sum over the keys above it, which gives exact gradients of every order.
    Sums are in float32.
    """
    if not scores.shape[-1]:
        return scores
    below, forbidden = _below_the_best(wide(scores), mask, 2.0)
    with torch.no_grad():
        ordered = below.sort(-1, descending=True).values
        count = torch.arange(1, ordered.shape[-1] + 1, device=scores.device)
        above = 1 + count * ordered > ordered.cumsum(-1)
    tau = _threshold(below, ordered, above, _of_sparsemax)
    return _without((below - tau).relu(), forbidden).to(scores.dtype)


def entmax15(
    scores: Float[Tensor, "*batch key"], mask: Mask | Tensor | None = None
) -> Float[Tensor, "*batch key"]:
    """a_i = max(e_i / 2 - tau, 0)^2, halfway between softmax and sparsemax (Peters 2019, 1905.05702, algorithm 2).

    A row with no allowed key is zeros, in value and gradient. A row with NaN or infinity among its allowed scores is
    NaN, as in `softmax`. Sums are in float32.
    """
    if not scores.shape[-1]:
        return scores
    below, forbidden = _below_the_best(wide(scores) / 2, mask, 2.0)
    with torch.no_grad():
        ordered = below.sort(-1, descending=True).values
        count = torch.arange(1, ordered.shape[-1] + 1, device=scores.device)
        sums, squares = ordered.cumsum(-1), ordered.square().cumsum(-1)
        spread = squares - sums.square() / count
        above = sums / count - ((1 - spread) / count).clamp(min=0).sqrt() <= ordered
    tau = _threshold(below, ordered, above, _of_entmax15)
    return _without((below - tau).relu().square(), forbidden).to(scores.dtype)


def _threshold(
    below: Tensor,
    ordered: Tensor,
    above: Tensor,
    tau: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """tau from the scores `above` it, given for the ordered ones. Running sums round in rows of thousands of keys, so
    these keys only give a first tau, and the keys above that the final one. NaN if a score is NaN."""
    with torch.no_grad():
        least = ordered.gather(-1, above.sum(-1, keepdim=True).clamp(min=1) - 1)
        inside = ~(below <= tau(below, ~(below < least)))  # NaN is inside
    return tau(below, inside)


def _of_sparsemax(below: Tensor, inside: Tensor) -> Tensor:
    """tau, such that the scores inside exceed it by 1 in sum."""
    return (below.masked_fill(~inside, 0.0).sum(-1, keepdim=True) - 1) / inside.sum(
        -1, keepdim=True
    )


def _of_entmax15(below: Tensor, inside: Tensor) -> Tensor:
    """tau, such that the squares of what the scores inside exceed it by sum to 1."""
    count = inside.sum(-1, keepdim=True)
    mean = below.masked_fill(~inside, 0.0).sum(-1, keepdim=True) / count
    spread = (below - mean).masked_fill(~inside, 0.0).square().sum(-1, keepdim=True)
    return mean - ((1 - spread) / count).clamp(min=torch.finfo(below.dtype).tiny).sqrt()


class Sparsemax(Align):
    """Sparse alignment by `sparsemax`."""

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        return Aligned(sparsemax(scores, mask))


class Entmax15(Align):
    """Sparse alignment by `entmax15`."""

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        return Aligned(entmax15(scores, mask))


def _below_the_best(
    scores: Tensor, mask: Mask | Tensor | None, deepest: float
) -> tuple[Tensor, Tensor | None]:
    """How far each score lies below the row's best allowed one, at most `deepest`, where the weight is 0 already; and
    which keys are forbidden."""
    forbidden = None
    if mask is not None:
        forbidden = ~(mask.dense() if isinstance(mask, Mask) else mask)
        scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
    return (scores - scores.detach().amax(-1, keepdim=True)).clamp(
        min=-deepest
    ), forbidden


def _without(weights: Tensor, forbidden: Tensor | None) -> Tensor:
    return weights if forbidden is None else weights.masked_fill(forbidden, 0.0)
