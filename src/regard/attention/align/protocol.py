"""What every alignment is, and where a memory may be read."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores


class Draw(NamedTuple):
    """What training needs of weights that were drawn, because no gradient passes through a draw. All with a gradient.

    log_probability: `(*batch, query)`, of the key that was drawn; 0 where none was
    entropy: `(*batch, query)`, of what it was drawn from, in nats
    baseline: the loss a token that is usual, a buffer of the alignment which is saved with it and kept by the training
    """

    log_probability: Float[Tensor, "*batch query"]
    entropy: Float[Tensor, "*batch query"]
    baseline: Tensor


class Aligned(NamedTuple):
    """What an alignment gives: weights `(*batch, query, key)`, its state after these queries, and what it drew."""

    weights: Tensor
    state: Any = None
    draw: Draw | None = None


class Align(nn.Module, ABC):
    """Turns scores into weights. `query` is for alignments that place themselves by it; `state` is what an alignment
    carries from step to step, batch first: it comes in (None before the first query), goes out in `Aligned`, and is
    never kept on the module. More keys may have come by then, which had no weight so far."""

    over_growing = True
    """False when keys that are masked still matter, so that a text that is being written is not read as a whole one."""

    @abstractmethod
    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        """scores `(*batch, query, key)` -> weights of the same shape."""


def dense(mask: Mask | None, scores: Scores) -> Tensor:
    """The mask as booleans, broadcastable to the scores; all open if there is none."""
    if mask is None:
        return torch.ones(1, scores.shape[-1], dtype=torch.bool, device=scores.device)
    return mask.dense()


def lengths(mask: Mask | None, scores: Scores) -> Tensor:
    """The length of the memory as each query sees it, up to the last key that it may read: whole numbers, broadcastable
    to `(*batch, query)`. Under padding that is the sequence's own length, under a causal mask what has passed."""
    if not scores.shape[-1]:
        return torch.zeros(1, dtype=torch.int64, device=scores.device)
    places = torch.arange(1, scores.shape[-1] + 1, device=scores.device)
    return (dense(mask, scores) * places).amax(-1)


def reaching(weights: Float[Tensor, "*batch known"], keys: int) -> Float[Tensor, "*batch key"]:
    """Weights of queries before, over as many keys as there are now; those that came since had none."""
    return functional.pad(weights, (0, keys - weights.shape[-1]))
