"""Attention where a query reads only keys near its own place, by blocks: nothing as large as the scores is made."""

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
