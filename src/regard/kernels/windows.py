"""Product attention in a window, block by block through PyTorch's fused attention.

Nothing of the size of the scores is stored.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

BLOCK = 64
"""Smallest number of queries in a block."""


def block_size(before: int, after: int) -> int:
    """Return the queries per block that need at most twice the scores in the windows."""
    return max(BLOCK, before + after + 1)


def windows_save_time(queries: int, keys: int, before: int, after: int) -> bool:
    """Return whether blocks compute at most a quarter of all scores.

    A score of a block takes up to three times as long, since keys are copied to blocks.
    """
    keys_per_block = block_size(before, after) + before + after
    return queries >= BLOCK and 4 * keys_per_block <= keys


def attend_windows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: tuple[int, int, int],
    allowed: Tensor | None = None,
    *,
    scale: float = 1.0,
) -> Tensor:
    """Attend to the keys near each query.

    Args:
        query: `(*batch, query, width)`.
        key: `(*batch, key, width)`.
        value: `(*batch, key, value_width)`.
        window: The number of keys before and after a query's position, and the position
            of the first query among the keys.
        allowed: A boolean mask of the keys, `(*batch, 1, key)`.
        scale: Factor of the products.

    Returns:
        The context, `(*batch, query, value_width)`.
    """
    before, after, first = window
    queries = query.shape[-2]
    keys = key.shape[-2]
    size = block_size(before, after)
    span = size + before + after
    blocks = -(-queries // size)
    # Keys are padded so that block b covers keys b * size .. b * size + span. A negative
    # padding cuts off keys that no query reads.
    end = first + blocks * size + after
    padding = before - first, end - keys
    positions = torch.arange(-padding[0], end, device=query.device)
    positions = positions.unfold(0, span, size)
    inside = (positions >= 0) & (positions < keys)
    mask = _near(size, before + after, query.device) & inside[:, None]
    if allowed is not None:
        columns = pad(allowed[..., 0, :], padding).unfold(-1, span, size)
        mask = mask & columns[..., None, :]
    query_blocks = pad(query, (0, 0, 0, blocks * size - queries))
    sides = [
        pad(side, (0, 0, *padding)).unfold(-2, span, size) for side in (key, value)
    ]
    inputs = query_blocks.unflatten(-2, (blocks, size)), sides[0].mT, sides[1].mT
    # blocks take the place of heads, which PyTorch's kernel needs as the second axis
    batch = query.shape[:-2]
    if mask.ndim > 3:
        mask = mask.expand(*batch, *mask.shape[-3:]).flatten(0, -4)
    inputs = map(_join_batch, inputs)
    context = scaled_dot_product_attention(*inputs, attn_mask=mask, scale=scale)
    context = context.reshape(*batch, blocks * size, value.shape[-1])
    return context[..., :queries, :]


def _near(size: int, reach: int, device: torch.device) -> Tensor:
    """Return which keys of a block each of its `size` queries may read."""
    columns = torch.arange(size + reach, device=device)
    distances = columns - columns[:size, None]
    return (distances >= 0) & (distances <= reach)


def _join_batch(blocks: Tensor) -> Tensor:
    """Return blocks with one batch axis in front."""
    return blocks[None] if blocks.ndim == 3 else blocks.flatten(0, -4)
