"""The alignment protocol and soft, global alignments.

The softmax under a mask, and sparse relatives that give most keys a weight of exactly
0.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores, Weights, to_float32

Rows = Float[Tensor, "*batch key"]


class Draw(NamedTuple):
    """A sampled key of each query, for REINFORCE.

    No gradient passes through the sampling itself; the first two parts have a gradient.

    Attributes:
        log_probability: The log-probability of the sampled key, `(*batch, query)`; 0
            where none was sampled.
        entropy: The entropy of the distribution that was sampled from, in nats,
            `(*batch, query)`.
        baseline: The moving average of the loss per token, a buffer of the alignment that
            training updates.
    """

    log_probability: Float[Tensor, "*batch query"]
    entropy: Float[Tensor, "*batch query"]
    baseline: Tensor


class AlignInput(NamedTuple):
    """The input of an alignment.

    Attributes:
        scores: `(*batch, query, key)`.
        mask: The keys that each query may read; None for all.
        query: The queries, for alignments that compute their window or move from them.
        state: What the alignment carries from step to step, batch first; None before
            the first query. It is returned in `Aligned` and never stored on the module.
    """

    scores: Scores
    mask: Mask | None = None
    query: Query | None = None
    state: Any = None


class Aligned(NamedTuple):
    """The result of an alignment.

    Attributes:
        weights: `(*batch, query, key)`.
        state: The state after these queries.
        draw: The sampled keys, if any.
    """

    weights: Tensor
    state: Any = None
    draw: Draw | None = None


class Align(nn.Module, ABC):
    """A way to turn scores into weights: `align(scores, mask, query, state)`.

    The memory may have grown between steps; the new keys have had no weight so far.
    """

    query_width: int | None = None
    """Width of the queries; None for any."""
    heads: int | None = None
    """Number of heads for which it has parameters of their own; None for any number."""
    supports_growing = True
    """False if masked keys influence the weights; a growing sequence is then not read
    like a complete one."""

    @abstractmethod
    def forward(self, inputs: AlignInput) -> Aligned:
        """Turn scores into weights of the same shape."""

    def __call__(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        """Turn scores into weights, see `AlignInput`."""
        return super().__call__(AlignInput(scores, mask, query, state))


def dense_mask(mask: Mask | None, scores: Scores) -> Tensor:
    """Return the mask as booleans that broadcast to the scores; all True for None."""
    if mask is None:
        return torch.ones(1, scores.shape[-1], dtype=torch.bool, device=scores.device)
    return mask.dense()


def pad_keys(weights: Float[Tensor, "*batch _"], keys: int) -> Rows:
    """Pad weights of earlier queries with 0 to the present number of keys."""
    return functional.pad(weights, (0, keys - weights.shape[-1]))


AnyMask = Mask | Tensor | None


def _hide(scores: Tensor, mask: AnyMask) -> tuple[Tensor, Tensor | None]:
    """Replace forbidden scores by the lowest number; return which are forbidden."""
    if mask is None:
        return scores, None
    forbidden = ~(mask.dense() if isinstance(mask, Mask) else mask)
    return scores.masked_fill(forbidden, torch.finfo(scores.dtype).min), forbidden


def softmax(scores: Scores, mask: AnyMask = None) -> Weights:
    """Return a_i = exp(e_i) / sum_j exp(e_j) over the allowed keys.

    A row with no allowed key is zeros, in value and gradient. Forbidden scores become
    the lowest finite number, not minus infinity: no NaN arises then, not even in the
    backward pass of a row with no allowed key.
    """
    scores, forbidden = _hide(scores, mask)
    return _zero(torch.softmax(scores, -1), forbidden)


class Softmax(Align):
    """Soft, global alignment (Bahdanau 2015, equation 6)."""

    def forward(self, inputs: AlignInput) -> Aligned:
        return Aligned(softmax(inputs.scores, inputs.mask))


def sparsemax(scores: Rows, mask: AnyMask = None) -> Rows:
    """Project scores onto the simplex, a_i = max(e_i - tau, 0) (Martins 2016, 1602.02068).

    Algorithm 1. A row with no allowed key is zeros, in value and gradient. A row with
    NaN or infinity among its allowed scores is NaN, as in `softmax`. The threshold tau
    is a sum over the keys above it, which gives exact gradients of every order. Sums
    are in float32.
    """
    if not scores.shape[-1]:
        return scores
    shifted, forbidden = _shift_by_max(to_float32(scores), mask)
    with torch.no_grad():
        ordered, count = _sort(shifted)
        above = 1 + count * ordered > ordered.cumsum(-1)
    tau = _find_threshold(shifted, ordered, above, _sparsemax_threshold)
    return _zero((shifted - tau).relu(), forbidden).to(scores.dtype)


def entmax15(scores: Rows, mask: AnyMask = None) -> Rows:
    """Return a_i = max(e_i / 2 - tau, 0)^2, between softmax and sparsemax.

    Peters 2019, 1905.05702, algorithm 2. A row with no allowed key is zeros, in value
    and gradient. A row with NaN or infinity among its allowed scores is NaN, as in
    `softmax`. Sums are in float32.
    """
    if not scores.shape[-1]:
        return scores
    shifted, forbidden = _shift_by_max(to_float32(scores) / 2, mask)
    with torch.no_grad():
        ordered, count = _sort(shifted)
        sums = ordered.cumsum(-1)
        spread = ordered.square().cumsum(-1) - sums.square() / count
        distance = ((1 - spread) / count).clamp(min=0).sqrt()
        above = sums / count - distance <= ordered
    tau = _find_threshold(shifted, ordered, above, _entmax15_threshold)
    return _zero((shifted - tau).relu().square(), forbidden).to(scores.dtype)


def _sort(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores, best first, and how many there are up to each."""
    ordered = scores.sort(-1, descending=True).values
    return ordered, torch.arange(1, scores.shape[-1] + 1, device=scores.device)


def _shift_by_max(scores: Tensor, mask: AnyMask) -> tuple[Tensor, Tensor | None]:
    """Subtract the row's best allowed score, and return which keys are forbidden.

    Differences end at -2, where the weight is 0 already.
    """
    scores, forbidden = _hide(scores, mask)
    best = scores.detach().amax(-1, keepdim=True)
    return (scores - best).clamp(min=-2.0), forbidden


def _zero(weights: Tensor, forbidden: Tensor | None) -> Tensor:
    return weights if forbidden is None else weights.masked_fill(forbidden, 0.0)


def _find_threshold(
    scores: Tensor,
    ordered: Tensor,
    above: Tensor,
    compute: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Return tau from the scores `above` it, given for the ordered ones.

    Running sums round in rows of thousands of keys. So these keys only give a first
    tau, and the keys above that one the final tau. It is NaN if a score is NaN.
    """
    with torch.no_grad():
        least = ordered.gather(-1, above.sum(-1, keepdim=True).clamp(min=1) - 1)
        tau = compute(scores, ~(scores < least))
        inside = ~(scores <= tau)  # NaN is inside
    return compute(scores, inside)


def _sparsemax_threshold(scores: Tensor, inside: Tensor) -> Tensor:
    """Return tau, such that the scores inside exceed it by 1 in sum."""
    total = scores.masked_fill(~inside, 0.0).sum(-1, keepdim=True)
    return (total - 1) / inside.sum(-1, keepdim=True)


def _entmax15_threshold(scores: Tensor, inside: Tensor) -> Tensor:
    """Return tau, such that the squares of what the scores exceed it by sum to 1."""
    count = inside.sum(-1, keepdim=True)
    mean = scores.masked_fill(~inside, 0.0).sum(-1, keepdim=True) / count
    differences = (scores - mean).masked_fill(~inside, 0.0)
    spread = differences.square().sum(-1, keepdim=True)
    tiny = torch.finfo(scores.dtype).tiny
    return mean - ((1 - spread) / count).clamp(min=tiny).sqrt()


class Sparsemax(Align):
    """Sparse alignment by `sparsemax`."""

    def forward(self, inputs: AlignInput) -> Aligned:
        return Aligned(sparsemax(inputs.scores, inputs.mask))


class Entmax15(Align):
    """Sparse alignment by `entmax15`."""

    def forward(self, inputs: AlignInput) -> Aligned:
        return Aligned(entmax15(inputs.scores, inputs.mask))
