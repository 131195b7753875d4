"""Attention with product scores by PyTorch's fused kernel, and the sizes from which it is faster than the plain
form."""

from collections.abc import Sequence
from functools import cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import wide

Masked = Literal["none", "keys", "causal"]
"""The kind of mask: none, some keys, or all positions behind the query."""
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
"""Number of scores per row of heads from which the fused kernel is faster on a CPU, measured by
`benchmarks.product_scores`. Keys: whether in half precision, whether in training, and the kind of mask. Where the
kernel was slower at all sizes up to 1024 by 1024, it is used from 2048 by 2048 on because it needs less memory."""
WITH_AMX: dict[tuple[bool, bool, Masked], int] = {
    (True, False, "none"): 0,
    (True, False, "keys"): 0,
    (True, False, "causal"): 0,
    (True, True, "keys"): 512**2,
    (True, True, "causal"): 512**2,
}
"""The sizes that differ on a processor that multiplies tiles of bfloat16 (AMX)."""


@cache
def least() -> dict[tuple[bool, bool, Masked], int]:
    """The sizes of this processor."""
    return LEAST | WITH_AMX if torch.cpu._is_amx_tile_supported() else LEAST


def fused_is_faster(query: Tensor, key: Tensor, masked: Masked = "none") -> bool:
    """Whether `fused` is faster than the plain form for `query (*batch, query, width)` and `key (*batch, key, width)`.
    Exported graphs use the plain form, since they must serve all sizes."""
    if query.is_cuda:
        return True
    if torch.compiler.is_exporting():
        return False
    training = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    return (
        query.shape[-2] * key.shape[-2]
        >= least()[query.dtype.itemsize < 4, training, masked]
    )


def scaled(product: Tensor, scale: float) -> Tensor:
    """`product * scale`, without a multiplication if the scale is 1."""
    return product if scale == 1.0 else product * scale


def products(
    query: Tensor, key: Tensor, scale: float = 1.0, *, exact: bool = False
) -> Tensor:
    """scale * query . key of every pair, `(*batch, query, key)`. In float16 the result is float32: products of numbers
    above 256 would overflow. An `exact` product ignores autocast."""
    if exact or query.dtype == torch.float16:
        with torch.autocast(query.device.type, enabled=False):
            return by_group(scaled(wide(query), scale), wide(key).mT)
    return by_group(scaled(query, scale), key.mT)


def shares(query: Tensor, key: Tensor) -> int:
    """How many heads of `query (*batch, head, query, width)` share each head of `key (*batch, group, key, width)`."""
    return (
        query.shape[-3] // max(key.shape[-3], 1) or 1
        if min(query.ndim, key.ndim) > 2
        else 1
    )


def by_group(left: Tensor, right: Tensor) -> Tensor:
    """`left (*batch, head, row, inner) @ right (*batch, group, inner, column)`, where several heads share a group. The
    heads of a group are rows of one product, so `right` is not repeated."""
    if (each := shares(left, right)) == 1:
        return left @ right
    rows = left.unflatten(-3, (right.shape[-3], each)).flatten(-3, -2)
    return (rows @ right).unflatten(-2, (each, left.shape[-2])).flatten(-4, -3)


def of_heads(tensor: Tensor, heads: Sequence[int] | None, each: int) -> Tensor:
    """The groups `(*batch, group, row, column)` of the chosen heads (None: all), one for each head, where `each` heads
    share a group."""
    if each == 1:
        return part(tensor, heads, None)
    if heads is None:
        return tensor.repeat_interleave(each, -3)
    return part(tensor, [head // each for head in heads], None)


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float = 1.0,
) -> Tensor:
    """softmax(scale query . key + bias) value without storing the weights: `(*batch, query, value_width)`.

    The mask is either `allowed`, a boolean tensor that broadcasts to the scores, or `causal` for the square lower
    triangle without a bias, never both. Broadcast axes of `allowed` are not expanded: padding needs no tensor of the
    size of the scores. Several heads of queries may share one of keys and values.
    """
    shape, each = (*query.shape[:-1], value.shape[-1]), shares(query, key)
    query, key, value = (with_heads(side) for side in of_one_width(query, key, value))
    allowed = None if allowed is None else over_heads(allowed, len(shape))
    bias = None if bias is None else over_heads(bias, len(shape))
    for_all = bias is None and (allowed is None or {1} == {*allowed.shape[-3:-1]})
    if (
        each > 1 and not causal and for_all
    ):  # a row of keys for each group, of which PyTorch would make copies
        query, each = query.unflatten(-3, (key.shape[-3], each)).flatten(-3, -2), 1
    mask = (
        bias
        if allowed is None
        else allowed
        if bias is None
        else bias.masked_fill(~allowed, -torch.inf)
    )
    context = functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=causal,
        scale=scale,
        enable_gqa=each > 1,
    )
    if allowed is not None:
        context = torch.where(allowed.any(-1, keepdim=True), context, 0.0)
    return context[..., : shape[-1]].reshape(shape)


def over_heads(tensor: Tensor, axes: int) -> Tensor:
    """A mask or bias for scores of so many axes, with the axes `(batch, head, query, key)` as far as it has them."""
    return tensor.unsqueeze(-3 if axes == 3 else 0) if tensor.ndim == 3 else tensor


def of_one_width(*sides: Tensor) -> tuple[Tensor, ...]:
    """Pad the tensors with zeros to one width, which PyTorch's kernels without weights require."""
    most = max(each.shape[-1] for each in sides)
    return tuple(
        each
        if each.shape[-1] == most
        else functional.pad(each, (0, most - each.shape[-1]))
        for each in sides
    )


def with_heads(tensor: Tensor) -> Tensor:
    """Add axes up to `(batch, head, position, width)`, which PyTorch's fused kernels require."""
    while tensor.ndim < 4:
        tensor = tensor.unsqueeze(-3)
    return tensor


def part(
    tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None
) -> Tensor:
    """The chosen heads and rows of `(*batch, [head,] row, ...)`; None selects all. Without a head axis `heads` must be
    None."""
    tensor = tensor if heads is None else tensor[..., list(heads), :, :]
    return tensor if rows is None else tensor[..., list(rows), :]


def shared_part(
    tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None
) -> Tensor:
    """`part` of a mask or bias, in which an axis of size 1 or a missing axis serves all."""
    own_heads = heads if tensor.ndim > 2 and tensor.shape[-3] > 1 else None
    return part(tensor, own_heads, rows if tensor.shape[-2] > 1 else None)
