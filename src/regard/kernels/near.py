"""The keys near a place of each query's own: which they are, when it pays to look at them alone, and to pick them."""

import torch
from torch import Tensor

LEAST_SCORES, LEAST_NUMBERS = 2**16, 2**19
"""Scores of a batch from which a softmax over windows is faster on a CPU where these are taken out first, and numbers
of keys to look at, for all queries, from which these are faster read with their own: below, more calls cost more than
is saved."""
SHARE_OF_SCORES, SHARE_OF_KEYS, SHARE_OF_ALL_KEYS = 4, 12, 96
"""So many times as many keys as a window has there must be: for its scores to be taken out, for the keys of one query
to be picked, and for those of several. `docs/log.md` has the figures."""


def fewer_is_faster(scores: Tensor, count: int) -> bool:
    """Whether a softmax over `count` keys of each row of `(*batch, query, key)` is faster on these alone. A graph that
    is exported is for all sizes, and looks at all."""
    if torch.compiler.is_exporting():
        return False
    return scores.numel() >= LEAST_SCORES and scores.shape[-1] >= SHARE_OF_SCORES * count


def picking_is_faster(query: Tensor, key: Tensor, count: int) -> bool:
    """Whether queries `(*batch, query, width)` are faster read each with `count` of the keys `(*batch, key, width)`
    than all with all. Of several each has a copy of its own, where one product would have served them all."""
    queries, (keys, width) = query.shape[-2], key.shape[-2:]
    if torch.compiler.is_exporting() or queries * key.numel() < LEAST_NUMBERS:
        return False
    if queries == 1:
        return keys >= SHARE_OF_KEYS * count
    return keys >= SHARE_OF_ALL_KEYS * count and 2 * keys >= count * width  # copies no larger than twice the scores


def around(centre: Tensor, reach: int, keys: int) -> Tensor:
    """The places of 2 `reach` + 1 keys in a row, or all if there are not so many, which have all among them that stand
    no farther than `reach` from a centre `(*batch, query)` -> `(*batch, query, near)`."""
    count = min(2 * reach + 1, keys)
    first = (centre.detach() - reach).ceil().long().clamp(0, keys - count)
    return first[..., None] + torch.arange(count, device=centre.device)


def picked(tensor: Tensor, places: Tensor) -> Tensor:
    """Of `(*batch, key, width)` the rows at `(*batch, near)` -> `(*batch, near, width)`."""
    sizes = tensor.shape[:-2]
    rows = [torch.arange(size, device=tensor.device) for size in sizes]
    batch = [each.view(-1, *[1] * (len(sizes) - axis)) for axis, each in enumerate(rows)]
    return tensor[(*batch, places)]
