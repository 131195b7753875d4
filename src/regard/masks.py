"""Which keys each query may read: small values, True = may attend, joined by `&`.

A mask keeps its structure (lengths, causality, a window) until somebody needs the dense boolean tensor, so that a fused
kernel can use the structure instead. Every torch function accepts a mask and sees its dense tensor.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

import torch
from torch import Tensor
from torch.utils._pytree import tree_map


class Mask(ABC):
    """A boolean `(*batch, query, key)` mask, where an axis of size 1 broadcasts."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The boolean tensor, broadcastable to `(*batch, query, key)`."""

    @abstractmethod
    def readable(self) -> Tensor | None:
        """`(*batch, key)`: keys that at least one query may read; None when no key is closed to all queries."""

    @abstractmethod
    def over_heads(self) -> "Mask":
        """The same mask for scores with a head axis before `(query, key)`."""

    @abstractmethod
    def select(self, rows: Tensor) -> "Mask":
        """The mask of the batch rows `rows` `(rows,)`, in that order, repeats allowed."""

    def of_query(self, place: int) -> "Mask":
        """The mask of the one query that stands at `place` among those it is for."""
        allowed = self.dense()
        return Dense(allowed if allowed.shape[-2] == 1 else allowed[..., place : place + 1, :])

    @property
    def shape(self) -> torch.Size:
        return self.dense().shape

    @property
    def is_causal(self) -> bool:
        """True for exactly the square lower triangle, which kernels know by name."""
        return False

    def __and__(self, other: "Mask | Tensor | None") -> "Mask":
        return self if other is None else Both(self, as_mask(other))

    def __rand__(self, other: "Mask | Tensor | None") -> "Mask":
        return self if other is None else Both(as_mask(other), self)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def densify(x):
            return x.dense() if isinstance(x, Mask) else x

        return function(*tree_map(densify, tuple(args)), **tree_map(densify, kwargs or {}))


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys before each sequence's own length. `lengths (*batch,)`, `size` the padded number of keys."""

    lengths: Tensor
    size: int

    @cached_property
    def _allowed(self) -> Tensor:
        return torch.arange(self.size, device=self.lengths.device) < self.lengths[..., None]

    def dense(self) -> Tensor:
        return self._allowed[..., None, :]

    def readable(self) -> Tensor:
        return self._allowed

    def over_heads(self) -> "Padding":
        return Padding(self.lengths[..., None], self.size)

    def select(self, rows: Tensor) -> "Padding":
        return Padding(self.lengths[rows], self.size)


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys from `before` positions before the query's own to `after` positions after it; None means without limit."""

    queries: int
    keys: int
    before: int | None
    after: int | None
    first: int
    device: torch.device | None = None

    @cached_property
    def _allowed(self) -> Tensor:
        query = torch.arange(self.first, self.first + self.queries, device=self.device)[:, None]
        distance = torch.arange(self.keys, device=self.device) - query
        allowed = torch.ones_like(distance, dtype=torch.bool)
        if self.before is not None:
            allowed &= distance >= -self.before
        if self.after is not None:
            allowed &= distance <= self.after
        return allowed

    @property
    def is_causal(self) -> bool:
        return self.before is None and self.after == 0 and self.first == 0 and self.queries == self.keys

    def dense(self) -> Tensor:
        return self._allowed

    def readable(self) -> Tensor | None:
        if not self.queries:
            return torch.zeros(self.keys, dtype=torch.bool, device=self.device)
        low = 0 if self.before is None else self.first - self.before
        high = self.keys if self.after is None else self.first + self.queries + self.after
        if low <= 0 and high >= self.keys:
            return None
        place = torch.arange(self.keys, device=self.device)
        return (place >= low) & (place < high)

    def over_heads(self) -> "Window":
        return self

    def select(self, rows: Tensor) -> "Window":
        return self


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """Any boolean tensor, broadcastable to `(*batch, query, key)`."""

    allowed: Tensor

    def dense(self) -> Tensor:
        return self.allowed

    def readable(self) -> Tensor | None:
        return self.allowed.any(-2)

    def over_heads(self) -> "Dense":
        return Dense(self.allowed.unsqueeze(-3)) if self.allowed.ndim > 2 else self

    def select(self, rows: Tensor) -> "Dense":
        return Dense(self.allowed[rows]) if self.allowed.ndim > 2 and self.allowed.shape[0] > 1 else self


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """What both masks allow."""

    left: Mask
    right: Mask

    def dense(self) -> Tensor:
        return self.left.dense() & self.right.dense()

    def readable(self) -> Tensor | None:
        parts = [part for part in (self.left.readable(), self.right.readable()) if part is not None]
        return reduce(and_, parts) if parts else None

    def over_heads(self) -> "Both":
        return Both(self.left.over_heads(), self.right.over_heads())

    def select(self, rows: Tensor) -> "Both":
        return Both(self.left.select(rows), self.right.select(rows))


def padding(lengths: Tensor, size: int) -> Padding:
    """Keys before each sequence's end: `lengths (*batch,)` whole numbers, `size` keys -> `(*batch, 1, size)`.

    Raises:
        TypeError: lengths are not whole numbers.
        ValueError: a length is negative or beyond `size`.
    """
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths have dtype {lengths.dtype}; give whole numbers, one a sequence")
    if lengths.numel() and not torch.compiler.is_compiling():  # a graph has no numbers to look at
        least, most = int(lengths.min()), int(lengths.max())
        if not 0 <= least <= most <= size:
            raise ValueError(f"lengths lie in [{least}, {most}]; they must lie in [0, {size}]")
    return Padding(lengths, size)


def causal(queries: int, keys: int | None = None, *, device: torch.device | None = None) -> Window:
    """Position i reads positions j <= i: `(queries, keys)`. The queries are the last `queries` of the `keys` positions,
    so that `causal(1, n)` is one step of a decode with a cache of n and `causal(n, n)` the lower triangle."""
    return window(queries, keys, before=None, after=0, device=device)


def window(
    queries: int,
    keys: int | None = None,
    *,
    before: int | None = None,
    after: int | None = None,
    first: int | None = None,
    device: torch.device | None = None,
) -> Window:
    """Position i reads positions i - before .. i + after (None: without limit): `(queries, keys)`.

    `first` is the position of the first query among the keys, by default such that the last query is the last key.

    Raises:
        ValueError: a size, `before` or `after` is negative, or there are more queries than keys and no `first`.
    """
    keys = queries if keys is None else keys
    if min(queries, keys, before or 0, after or 0) < 0:
        raise ValueError(f"sizes must not be negative: queries {queries}, keys {keys}, before {before}, after {after}")
    if first is None and queries > keys:
        raise ValueError(f"{queries} queries cannot be the last of {keys} keys; say where they stand with `first`")
    return Window(queries, keys, before, after, keys - queries if first is None else first, device)


def as_mask(mask: Mask | Tensor) -> Mask:
    """A mask from a mask or a boolean tensor.

    Raises:
        TypeError: anything else, a float or 0/1 mask among them: only booleans say which way round they mean it.
    """
    if isinstance(mask, Mask):
        return mask
    if not isinstance(mask, Tensor):
        raise TypeError(f"a mask is a boolean tensor or made by regard.masks, not {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(
            f"a mask is boolean and True means the key may be attended to; got {mask.dtype}: "
            "write `mask == 1` or `mask.bool()`, or `~mask` if True meant hidden"
        )
    return Dense(torch.atleast_2d(mask))
