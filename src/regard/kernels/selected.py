"""Weights of which only some are computed, those of chosen heads and queries, and what they are made of."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

Chosen = Callable[[Sequence[int] | None, Sequence[int] | None], Tensor]
"""Heads and query positions (None: all) -> weights `(batch, [head,] query, key)`."""


class Projected(NamedTuple):
    """What scores are made of that are scaled products: query `(batch, head, query, width)`, key and value `(batch,
    group, key, width)`, each group serving as many heads; and the scale."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float


def part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The chosen heads and rows of `(*batch, [head,] row, ...)`; None: all, as heads where there are none."""
    tensor = tensor if heads is None else tensor[..., list(heads), :, :]
    return tensor if rows is None else tensor[..., list(rows), :]


def shared_part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The same of what is added to scores or hides them: an axis of one, or none, serves all."""
    own_heads = heads if tensor.ndim > 2 and tensor.shape[-3] > 1 else None
    return part(tensor, own_heads, rows if tensor.shape[-2] > 1 else None)
