"""Attention where a query reads only keys near its own place, by blocks: nothing as large as the scores is made. And
the keys near a place of each query's own: which they are, when it pays to read them alone, and to pick them."""

import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from regard.kernels.product import fused

BLOCK = 64
"""Queries of a block, at least."""


def block_size(before: int, after: int) -> int:
    """So many queries that at most twice as many scores are made as are wanted."""
    return max(BLOCK, before + after + 1)


def pays(queries: int, keys: int, before: int, after: int) -> bool:
    """Whether blocks make less than half of the scores."""
    return queries >= BLOCK and 2 * (block_size(before, after) + before + after) <= keys


def windowed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    near: tuple[int, int, int],
    allowed: Tensor | None = None,
    *,
    scale: float = 1.0,
) -> Tensor:
    """What `fused` gives for queries that stand at `first`, `first` + 1, ... among the keys and read from `before` keys
    before that place to `after` behind it. `near` is (before, after, first), `allowed` a boolean mask of the keys,
    `(*batch, 1, key)`."""
    before, after, first = near
    queries, keys = query.shape[-2], key.shape[-2]
    size = block_size(before, after)
    blocks = -(-queries // size)
    ends = before - first, first + blocks * size + after - keys  # below 0 they cut off what nobody reads
    places = torch.arange(-ends[0], keys + ends[1], device=query.device).unfold(0, size + before + after, size)
    distance = (
        torch.arange(size + before + after, device=query.device) - torch.arange(size, device=query.device)[:, None]
    )
    open_ = ((distance >= 0) & (distance <= before + after)) & ((places >= 0) & (places < keys))[:, None]
    if allowed is not None:
        theirs = functional.pad(allowed[..., 0, :], ends).unfold(-1, size + before + after, size)
        open_ = open_ & theirs[..., None, :]
    query = functional.pad(query, (0, 0, 0, blocks * size - queries)).unflatten(-2, (blocks, size))
    key, value = (
        rearrange(functional.pad(each, (0, 0, *ends)).unfold(-2, size + before + after, size), "... n d k -> ... n k d")
        for each in (key, value)
    )
    return flat(query, key, value, open_, scale)[..., :queries, :]


def flat(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scale: float) -> Tensor:
    """Blocks `(*batch, block, position, width)` read as if they were heads -> `(*batch, query, width)`."""
    batch = query.shape[:-3]
    allowed = allowed.expand(*batch, *allowed.shape[-3:]) if allowed.ndim > 3 else allowed
    allowed = allowed.flatten(0, -4) if allowed.ndim > 3 else allowed
    sides = (each.flatten(0, -4) if batch else each for each in (query, key, value))
    context = fused(*sides, allowed=allowed, scale=scale)
    blocks, size = query.shape[-3:-1]
    return context.reshape(*batch, blocks * size, value.shape[-1])


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
