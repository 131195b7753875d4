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
    *batch, queries, _ = query.shape
    keys = key.shape[-2]
    size = block_size(before, after)
    reach = before + after
    span = size + reach
    blocks = -(-queries // size)
    length = blocks * size
    # Keys are padded so that block b covers keys b * size .. b * size + span. A negative
    # padding cuts off keys that no query reads.
    end = first + length + after
    padding = before - first, end - keys
    positions = torch.arange(first - before, end, device=query.device)
    positions = positions.unfold(0, span, size)
    inside = (positions >= 0) & (positions < keys)
    window_mask = _near(size, reach, query.device)
    mask = window_mask & inside[:, None]
    if allowed is not None:
        columns = pad(allowed, padding)
        columns = columns.unfold(-1, span, size)
        mask = mask & columns.movedim(-3, -2)
    padded = pad(query, (0, 0, 0, length - queries))
    query_blocks = padded.unflatten(-2, (blocks, size))
    padding = (0, 0, *padding)
    key_blocks = pad(key, padding).unfold(-2, span, size)
    value_blocks = pad(value, padding).unfold(-2, span, size)
    inputs = query_blocks, key_blocks.mT, value_blocks.mT
    # blocks take the place of heads, which PyTorch's kernel needs as the second axis
    if mask.ndim > 3:
        mask = mask.expand(*batch, -1, -1, -1).flatten(0, -4)
    inputs = map(_join_batch, inputs)
    context = scaled_dot_product_attention(*inputs, attn_mask=mask, scale=scale)
    context = context.reshape(*batch, length, value.shape[-1])
    return context[..., :queries, :]


def _near(size: int, reach: int, device: torch.device) -> Tensor:
    """Return which keys of a block each of its `size` queries may read."""
    columns = torch.arange(size + reach, device=device)
    distances = columns - columns[:size, None]
    return (distances >= 0) & (distances <= reach)


def _join_batch(blocks: Tensor) -> Tensor:
    """Return blocks with one batch axis in front."""
    return blocks[None] if blocks.ndim == 3 else blocks.flatten(0, -4)
