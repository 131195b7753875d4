"""Weights of which only some are computed: those of chosen heads and queries."""

from collections.abc import Callable, Sequence

from torch import Tensor

Chosen = Callable[[Sequence[int] | None, Sequence[int] | None], Tensor]
"""Heads and query positions (None: all) -> weights `(batch, [head,] query, key)`."""


def part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The chosen heads and rows of `(*batch, [head,] row, ...)`; None: all, as heads where there are none."""
    tensor = tensor if heads is None else tensor[..., list(heads), :, :]
    return tensor if rows is None else tensor[..., list(rows), :]


def shared_part(tensor: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The same of what is added to scores or hides them: an axis of one, or none, serves all."""
    own_heads = heads if tensor.ndim > 2 and tensor.shape[-3] > 1 else None
    return part(tensor, own_heads, rows if tensor.shape[-2] > 1 else None)
