"""Attention with product scores by PyTorch's FlexAttention, which compiles a mask's rule into its kernel."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from regard.kernels.product import shares

BLOCK, NARROWEST = 128, 16
"""Queries and keys of a block of the kernel, of which a mask skips whole ones; and the least width of a head."""


def pays(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether a GPU's compiler is here, the kernel takes heads of these widths and this dtype, and a row has more than
    one block."""
    if find_spec("triton") is None or torch.compiler.is_exporting():
        return False
    wide = (
        min(query.shape[-1], value.shape[-1]) >= NARROWEST
        and query.dtype != torch.float64
    )
    return wide and query.shape[-2] >= BLOCK and key.shape[-2] > BLOCK


@cache
def compiled() -> Callable[..., Tensor]:
    """The kernel for a GPU."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def bound(cap: float) -> Callable[..., Tensor]:
    """The change of one score that keeps it within +-cap."""
    return lambda score, row, head, at, of: torch.tanh(score / cap) * cap


def flexible(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    blocks: Any = None,
    cap: float | None = None,
    scale: float = 1.0,
) -> Tensor:
    """softmax(e) value with e = scale query . key, or cap tanh(e / cap): `(batch, head, query, value_width)`. `blocks`
    are those of a mask, a `BlockMask`. Several heads of queries may share one of keys and values. Without a GPU it is
    computed in PyTorch's plain form, for tests."""
    from torch.nn.attention.flex_attention import flex_attention

    options = {
        "scale": scale,
        "block_mask": blocks,
        "enable_gqa": shares(query, key) > 1,
    }
    kernel = compiled() if query.is_cuda else flex_attention
    return kernel(
        query, key, value, score_mod=None if cap is None else bound(cap), **options
    )


def blocks(
    rule: Callable[..., Tensor], shape: Sequence[int], query: Tensor, key: Tensor
) -> Any:
    """The blocks of queries and keys that a mask `([[batch,] head,] query, key)` allows, wholly, in part or not at all,
    as a `BlockMask`. `rule` tells it of the numbers of row, head, query and key."""
    from torch.nn.attention.flex_attention import create_block_mask

    rows, heads = (1, 1, *shape)[-4:-2]
    queries, keys = query.shape[-2], key.shape[-2]
    # FlexAttention tells functions of masks from those of scores by their number of parameters.
    return create_block_mask(
        lambda row, head, at, of: rule(row, head, at, of),
        rows,
        heads,
        queries,
        keys,
        device=str(query.device),
    )
