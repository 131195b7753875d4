"""Attention with product scores on PyTorch's fused kernel, and when that is faster than the plain form."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Masked = Literal["none", "keys", "causal"]
"""Nothing is hidden, some keys are, or all that follows a query's place."""
LEAST: dict[tuple[bool, bool, Masked], int] = {
    (False, False, "none"): 0,
    (False, False, "keys"): 0,
    (False, False, "causal"): 0,
    (False, True, "none"): 128,
    (False, True, "keys"): 128,
    (False, True, "causal"): 128,
    (True, False, "none"): 2048**2,
    (True, False, "keys"): 512**2,
    (True, False, "causal"): 128**2,
    (True, True, "none"): 2048**2,
    (True, True, "keys"): 2048**2,
    (True, True, "causal"): 1024**2,
}
"""By half precision, by training, and by what is masked: so many scores a row of heads from which the fused kernel is
faster on a CPU, as `benchmarks.product_scores` measures. Where it was slower at all sizes measured, up to 1024
by 1024, it is for the memory that it serves from 2048 by 2048 on."""


def fused_is_faster(query: Tensor, key: Tensor, masked: Masked = "none") -> bool:
    """Whether `fused` beats the plain form for `query (*batch, query, width)` and `key (*batch, key, width)`. A graph
    that is exported is for all sizes, and takes the plain form."""
    if query.is_cuda:
        return True
    if torch.compiler.is_exporting():
        return False
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    return query.shape[-2] * key.shape[-2] >= LEAST[query.dtype.itemsize < 4, training, masked]


def scaled(product: Tensor, scale: float) -> Tensor:
    """The product, with a pass over it only where that changes anything."""
    return product if scale == 1.0 else product * scale


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float = 1.0,
) -> Tensor:
    """softmax(scale query . key) value without the weights: `(*batch, query, value_width)`.

    Either `allowed`, a boolean mask
    that broadcasts to the scores, or `causal` for the square lower triangle, never both. An axis of `allowed` that has
    one size for all stays so: of padding nothing as large as the scores is made.
    """
    shape = *query.shape[:-1], value.shape[-1]
    query, key, value = (with_heads(each) for each in of_one_width(query, key, value))
    if allowed is None:
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    else:
        if allowed.ndim == 3:
            allowed = allowed.unsqueeze(-3 if len(shape) == 3 else 0)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=scale)
        context = torch.where(allowed.any(-1, keepdim=True), context, 0.0)
    return context[..., : shape[-1]].reshape(shape)


def of_one_width(*sides: Tensor) -> tuple[Tensor, ...]:
    """The tensors, zeros behind the narrower: PyTorch's kernels that keep no weights take one width alone."""
    most = max(each.shape[-1] for each in sides)
    return tuple(each if each.shape[-1] == most else functional.pad(each, (0, most - each.shape[-1])) for each in sides)


def with_heads(tensor: Tensor) -> Tensor:
    """`(batch, head, position, width)`, for which alone PyTorch has such kernels, where there are fewer axes."""
    while tensor.ndim < 4:
        tensor = tensor.unsqueeze(-3)
    return tensor


def part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The chosen heads and rows of `(*batch, [head,] row, ...)`; None: all, as heads where there are none."""
    tensor = tensor if heads is None else tensor[..., list(heads), :, :]
    return tensor if rows is None else tensor[..., list(rows), :]


def shared_part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The same of what is added to scores or hides them: an axis of one, or none, serves all."""
    own_heads = heads if tensor.ndim > 2 and tensor.shape[-3] > 1 else None
    return part(tensor, own_heads, rows if tensor.shape[-2] > 1 else None)
