"""Product attention that skips pairs of queries and keys: windows, documents, flex.

Windows go block by block and documents one by one through PyTorch's fused attention.
On a GPU, FlexAttention compiles a mask into its kernel. Nothing of the size of the
scores is stored.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

BLOCK = 64
"""Smallest number of queries in a block."""
FLEX_BLOCK, FLEX_WIDTH = 128, 16
"""FlexAttention's block of queries and keys, and its least width of a head."""


def block_size(before: int, after: int) -> int:
    """Return the queries per block that need at most twice the scores in the windows."""
    return max(BLOCK, before + after + 1)


def windows_save_time(queries: int, keys: int, before: int, after: int) -> bool:
    """Return whether blocks compute less than half of all scores."""
    keys_per_block = block_size(before, after) + before + after
    return queries >= BLOCK and 2 * keys_per_block <= keys


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
    queries, keys = query.shape[-2], key.shape[-2]
    size = block_size(before, after)
    span = size + before + after
    blocks = -(-queries // size)
    # Keys are padded so that block b covers keys b * size .. b * size + span. A negative
    # padding cuts off keys that no query reads.
    padding = before - first, first + blocks * size + after - keys
    positions = torch.arange(-padding[0], keys + padding[1], device=query.device)
    positions = positions.unfold(0, span, size)
    offsets = torch.arange(span, device=query.device)
    distances = offsets - torch.arange(size, device=query.device)[:, None]
    near = (distances >= 0) & (distances <= before + after)
    mask = near & ((positions >= 0) & (positions < keys))[:, None]
    if allowed is not None:
        columns = pad(allowed[..., 0, :], padding).unfold(-1, span, size)
        mask = mask & columns[..., None, :]
    query_blocks = pad(query, (0, 0, 0, blocks * size - queries))
    query_blocks = query_blocks.unflatten(-2, (blocks, size))
    key_blocks = pad(key, (0, 0, *padding)).unfold(-2, span, size).mT
    value_blocks = pad(value, (0, 0, *padding)).unfold(-2, span, size).mT
    # blocks take the place of heads, which PyTorch's kernel needs as the second axis
    batch = query.shape[:-2]
    if mask.ndim > 3:
        mask = mask.expand(*batch, *mask.shape[-3:]).flatten(0, -4)
    sides = (query_blocks, key_blocks, value_blocks)
    query_blocks, key_blocks, value_blocks = (
        side.flatten(0, -4) if batch else side[None] for side in sides
    )
    context = scaled_dot_product_attention(
        query_blocks, key_blocks, value_blocks, attn_mask=mask, scale=scale
    )
    context = context.reshape(*batch, blocks * size, value.shape[-1])
    return context[..., :queries, :]


def attend_segments(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Sequence[int],
    causal: bool,
    *,
    scale: float = 1.0,
) -> Tensor:
    """Attend within each of the documents that follow each other in every row.

    Args:
        query: `(*batch, position, width)`; there may be several heads of queries for
            each head of keys.
        key: `(*batch, position, width)`.
        value: `(*batch, position, value_width)`.
        lengths: Lengths of the documents.
        causal: Whether a position attends to itself and earlier ones only.
        scale: Factor of the products.
    """
    sides = (side[None] if side.ndim == 3 else side for side in (query, key, value))
    documents = zip(*(side.split(list(lengths), -2) for side in sides), strict=True)
    contexts = [
        scaled_dot_product_attention(
            *document, is_causal=causal, scale=scale, enable_gqa=query.ndim > 3
        )
        for document in documents
    ]
    return torch.cat(contexts, -2).reshape(*query.shape[:-1], value.shape[-1])


def supports_flex(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether FlexAttention's GPU kernel serves these heads, and blocks help."""
    if find_spec("triton") is None or query.dtype == torch.float64:
        return False
    if min(query.shape[-1], value.shape[-1]) < FLEX_WIDTH:
        return False
    return query.shape[-2] >= FLEX_BLOCK and key.shape[-2] > FLEX_BLOCK


@cache
def compile_flex() -> Callable[..., Tensor]:
    """Return FlexAttention, compiled for a GPU."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def cap_scores(cap: float) -> Callable[..., Tensor]:
    """Return a FlexAttention score_mod that keeps scores within +-cap."""
    return lambda score, row, head, query, key: torch.tanh(score / cap) * cap


def attend_flexibly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask_mod: Callable[..., Tensor] | None = None,
    mask_shape: Sequence[int] = (),
    cap: float | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attend by FlexAttention; without a GPU in PyTorch's plain form, for tests.

    Args:
        query: `(batch, head, query, width)`.
        key: `(batch, group, key, width)`, where several heads may share a group.
        value: `(batch, group, key, value_width)`.
        mask_mod: FlexAttention's function of row, head, query and key.
        mask_shape: `([[batch,] head,] query, key)` of the mask.
        cap: Bound of the scores e: cap tanh(e / cap).
        scale: Factor of the products.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = None
    if mask_mod is not None:
        rows, heads = (1, 1, *mask_shape)[-4:-2]
        sizes = rows, heads, query.shape[-2], key.shape[-2]
        block_mask = create_block_mask(
            # FlexAttention counts the parameters to tell masks from scores
            lambda row, head, query, key: mask_mod(row, head, query, key),
            *sizes,
            device=str(query.device),
        )
    kernel = compile_flex() if query.is_cuda else flex_attention
    return kernel(
        query,
        key,
        value,
        score_mod=None if cap is None else cap_scores(cap),
        block_mask=block_mask,
        scale=scale,
        enable_gqa=query.shape[-3] != key.shape[-3],
    )
