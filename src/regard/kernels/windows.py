"""Attention within windows of keys around each query, by blocks or by picking keys; nothing of the size of the scores
is stored. Includes the rules for when this is faster."""

import torch
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from regard.kernels.product import fused

BLOCK = 64
"""Smallest number of queries in a block."""


def block_size(before: int, after: int) -> int:
    """Queries per block, so that at most twice the needed scores are computed."""
    return max(BLOCK, before + after + 1)


def pays(queries: int, keys: int, before: int, after: int) -> bool:
    """Whether blocks compute less than half of all scores."""
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
    """The result of `fused` for queries that stand at `first`, `first` + 1, ... among the keys and read from `before`
    keys before their position to `after` keys behind it. `near` is (before, after, first); `allowed` is a boolean mask
    of the keys, `(*batch, 1, key)`."""
    before, after, first = near
    queries, keys = query.shape[-2], key.shape[-2]
    size = block_size(before, after)
    blocks = -(-queries // size)
    ends = (
        before - first,
        first + blocks * size + after - keys,
    )  # a negative end cuts off keys that no query reads
    places = torch.arange(-ends[0], keys + ends[1], device=query.device).unfold(
        0, size + before + after, size
    )
    distance = (
        torch.arange(size + before + after, device=query.device)
        - torch.arange(size, device=query.device)[:, None]
    )
    open_ = ((distance >= 0) & (distance <= before + after)) & (
        (places >= 0) & (places < keys)
    )[:, None]
    if allowed is not None:
        theirs = functional.pad(allowed[..., 0, :], ends).unfold(
            -1, size + before + after, size
        )
        open_ = open_ & theirs[..., None, :]
    query = functional.pad(query, (0, 0, 0, blocks * size - queries)).unflatten(
        -2, (blocks, size)
    )
    key, value = (
        rearrange(
            functional.pad(each, (0, 0, *ends)).unfold(-2, size + before + after, size),
            "... n d k -> ... n k d",
        )
        for each in (key, value)
    )
    return flat(query, key, value, open_, scale)[..., :queries, :]


def by_document(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: tuple[int, ...],
    *,
    causal: bool,
    scale: float = 1.0,
) -> Tensor:
    """The result of `fused` for documents of these lengths one behind the other, each read by itself; with `causal`
    each position reads up to itself."""
    parts = zip(*(each.split(lengths, -2) for each in (query, key, value)), strict=True)
    return torch.cat([fused(*sides, causal=causal, scale=scale) for sides in parts], -2)


def flat(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scale: float
) -> Tensor:
    """Attention within blocks `(*batch, block, position, width)`, with blocks as heads -> `(*batch, query, width)`."""
    batch = query.shape[:-3]
    allowed = (
        allowed.expand(*batch, *allowed.shape[-3:]) if allowed.ndim > 3 else allowed
    )
    allowed = allowed.flatten(0, -4) if allowed.ndim > 3 else allowed
    sides = (each.flatten(0, -4) if batch else each for each in (query, key, value))
    context = fused(*sides, allowed=allowed, scale=scale)
    blocks, size = query.shape[-3:-1]
    return context.reshape(*batch, blocks * size, value.shape[-1])


LEAST_SCORES, LEAST_NUMBERS = 2**16, 2**19
"""Sizes from which windows are faster on a CPU: LEAST_SCORES in a batch for a softmax over gathered scores, and
LEAST_NUMBERS in the keys, for all queries, for gathering keys. Below, the extra calls cost more than they save."""
SHARE_OF_SCORES, SHARE_OF_KEYS, SHARE_OF_ALL_KEYS = 4, 12, 96
"""Smallest ratio of keys to window size: for gathering scores, for gathering the keys of one query, and for those of
several queries. `docs/log.md` has the measurements."""


def fewer_is_faster(scores: Tensor, count: int) -> bool:
    """Whether a softmax over `count` keys of each row of `(*batch, query, key)` is faster on gathered scores. Exported
    graphs score all keys, since they must serve all sizes."""
    if torch.compiler.is_exporting():
        return False
    return (
        scores.numel() >= LEAST_SCORES and scores.shape[-1] >= SHARE_OF_SCORES * count
    )


def picking_is_faster(query: Tensor, key: Tensor, count: int) -> bool:
    """Whether it is faster to score each query `(*batch, query, width)` against `count` gathered keys than against all
    keys `(*batch, key, width)`. Gathering copies the keys for each query, where one product would serve all queries."""
    queries, (keys, width) = query.shape[-2], key.shape[-2:]
    if torch.compiler.is_exporting() or queries * key.numel() < LEAST_NUMBERS:
        return False
    if queries == 1:
        return keys >= SHARE_OF_KEYS * count
    return (
        keys >= SHARE_OF_ALL_KEYS * count and 2 * keys >= count * width
    )  # copies no larger than twice the scores


def around(centre: Tensor, reach: int, keys: int) -> Tensor:
    """The positions of 2 `reach` + 1 successive keys that include all within `reach` of a centre: `(*batch, query)` ->
    `(*batch, query, near)`. If there are fewer keys, the positions of all."""
    count = min(2 * reach + 1, keys)
    first = (centre.detach() - reach).ceil().long().clamp(0, keys - count)
    return first[..., None] + torch.arange(count, device=centre.device)


def picked(tensor: Tensor, places: Tensor) -> Tensor:
    """Gather the rows `(*batch, near)` of `(*batch, key, width)` -> `(*batch, near, width)`."""
    sizes = tensor.shape[:-2]
    rows = [torch.arange(size, device=tensor.device) for size in sizes]
    batch = [
        each.view(-1, *[1] * (len(sizes) - axis)) for axis, each in enumerate(rows)
    ]
    return tensor[(*batch, places)]
