"""Where a memory may be read, for alignments that place themselves in it."""

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import Mask
from regard.shapes import Float, Scores


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
