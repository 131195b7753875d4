"""Attention with product scores on PyTorch's fused kernel, and when that is faster than the plain form."""

import torch
from torch import Tensor
from torch.nn import functional

SHORT = 128 * 128
"""Scores a row of heads below which plain matrix products beat the fused kernel on a CPU (see benchmarks)."""


def fused_is_faster(query: Tensor, key: Tensor) -> bool:
    """Whether `fused` beats the plain form for `query (*batch, query, width)` and `key (*batch, key, width)`."""
    return query.is_cuda or query.shape[-2] * key.shape[-2] >= SHORT


def fused(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None = None, *, causal: bool = False) -> Tensor:
    """softmax(query . key) value without the weights: `(*batch, query, value_width)`.

    The scores are the bare product: whatever scale there is lies in the query already. Either `allowed`, a boolean mask
    that broadcasts to the scores, or `causal` for the square lower triangle, never both.
    """
    if allowed is None:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=1.0)
    allowed = allowed.expand(*query.shape[:-1], key.shape[-2])
    context = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=1.0)
    return torch.where(allowed.any(-1, keepdim=True), context, 0.0)
