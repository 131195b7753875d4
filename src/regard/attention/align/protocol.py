"""The alignment protocol, and helpers that read masks."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores


class Draw(NamedTuple):
    """A sampled key of each query, for REINFORCE: no gradient passes through the sampling itself. The first two parts
    have a gradient.

    log_probability: `(*batch, query)`, of the sampled key; 0 where none was sampled
    entropy: `(*batch, query)`, of the distribution that was sampled from, in nats
    baseline: moving average of the loss per token, a buffer of the alignment that training updates
    """

    log_probability: Float[Tensor, "*batch query"]
    entropy: Float[Tensor, "*batch query"]
    baseline: Tensor


class Aligned(NamedTuple):
    """The result of an alignment: weights `(*batch, query, key)`, the state after these queries, and the draw, if
    any."""

    weights: Tensor
    state: Any = None
    draw: Draw | None = None


class Align(nn.Module, ABC):
    """Turn scores into weights.

    `query` is for alignments that compute their window or move from it. `state` is what an alignment carries from step
    to step, batch first: it is None before the first query, is returned in `Aligned`, and is never stored on the
    module. The memory may have grown between steps; the new keys have had no weight so far.
    """

    query_width: int | None = None
    """Width of the queries; None for any."""
    heads: int | None = None
    """Number of heads for which it has parameters of their own; None for any number."""
    over_growing = True
    """False if masked keys influence the weights; a growing sequence is then not read like a complete one."""

    @abstractmethod
    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        """Scores `(*batch, query, key)` -> weights of the same shape."""


def dense(mask: Mask | None, scores: Scores) -> Tensor:
    """The mask as booleans, broadcastable to the scores; all True for no mask."""
    if mask is None:
        return torch.ones(1, scores.shape[-1], dtype=torch.bool, device=scores.device)
    return mask.dense()


def lengths(mask: Mask | None, scores: Scores) -> Tensor:
    """Length of the memory as each query sees it, up to the last key that it may read: integers, broadcastable to
    `(*batch, query)`. Under padding this is the sequence's own length, under a causal mask the number of positions so
    far."""
    if not scores.shape[-1]:
        return torch.zeros(1, dtype=torch.int64, device=scores.device)
    places = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    return (dense(mask, scores) * places).amax(-1)


def reaching(
    weights: Float[Tensor, "*batch known"], keys: int
) -> Float[Tensor, "*batch key"]:
    """Pad weights of earlier queries to the present number of keys; new keys get 0."""
    return functional.pad(weights, (0, keys - weights.shape[-1]))
