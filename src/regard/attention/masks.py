"""Masks: which keys each query may attend to. True means it may; `&` joins masks.

A mask keeps its structure (lengths, causality, a window) until the boolean tensor is
needed, so that a fused kernel can use the structure. Every torch function accepts a
mask and sees its boolean tensor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


class LocalWindow(NamedTuple):
    """Keys near each query.

    Attributes:
        before: Number of keys before the query's own position.
        after: Number of keys after it.
        first: Position of the first query among the keys.
        keys: A mask of the keys for all queries, `(*batch, 1, key)`.
    """

    before: int
    after: int
    first: int
    keys: "Mask | None" = None


def cache_tensor(make: Callable[[Any], Tensor]) -> property:
    """Turn a method into a cached property.

    Under torch.compile it is computed each time: a graph that reads a cached tensor
    would be another graph.
    """
    name = make.__name__

    @wraps(make)
    def get(self: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return make(self)
        if name not in vars(self):
            vars(self)[name] = make(self)
        return vars(self)[name]

    return property(get)


class Mask(ABC):
    """A boolean `(*batch, query, key)` mask, where an axis of size 1 broadcasts.

    A subclass needs `dense` only. What else it overrides saves building the tensor.
    """

    @abstractmethod
    def dense(self) -> Tensor:
        """Return the boolean tensor, broadcastable to `(*batch, query, key)`."""

    @property
    def shape(self) -> torch.Size:
        """Shape of the boolean tensor."""
        return self.dense().shape

    @property
    def device(self) -> torch.device:
        """Device of the boolean tensor."""
        return self.dense().device

    def readable(self) -> Tensor | None:
        """Return the keys that a query may attend to, `(*batch, key)`; None for all."""
        return self.dense().any(-2)

    def with_head_axis(self) -> "Mask":
        """Return the mask of scores with a head axis before `(query, key)`."""
        return Dense(self.dense()).with_head_axis()

    def select(self, rows: Tensor) -> "Mask":
        """Return the mask of some batch rows in this order; rows may repeat."""
        return Dense(self.dense()).select(rows)

    def select_queries(self, queries: Sequence[int]) -> "Mask":
        """Return the mask of some queries."""
        return Dense(self.dense()).select_queries(queries)

    @property
    def is_causal(self) -> bool:
        """Whether it is the square lower triangle, which kernels know by name."""
        return False

    @property
    def local_window(self) -> LocalWindow | None:
        """The window, if each query attends only to keys near its own position."""
        return None

    def __and__(self, mask: "Mask | Tensor | None") -> "Mask":
        return self if mask is None else Both(self, as_mask(mask))

    __rand__ = __and__

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        inputs = (tuple(args), kwargs or {})
        args, kwargs = tree_map_only(Mask, lambda mask: mask.dense(), inputs)
        return function(*args, **kwargs)


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """Any boolean tensor, broadcastable to `(*batch, query, key)`."""

    allowed: Tensor

    def dense(self) -> Tensor:
        return self.allowed

    def with_head_axis(self) -> "Dense":
        return Dense(self.allowed.unsqueeze(-3)) if self.allowed.ndim > 2 else self

    def select(self, rows: Tensor) -> "Dense":
        if self.allowed.ndim < 3 or len(self.allowed) == 1:
            return self
        return Dense(self.allowed[rows])

    def select_queries(self, queries: Sequence[int]) -> "Dense":
        if self.allowed.shape[-2] == 1:
            return self
        return Dense(self.allowed[..., list(queries), :])


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """The keys that two masks allow."""

    first: Mask
    second: Mask

    def dense(self) -> Tensor:
        return self.first.dense() & self.second.dense()

    @property
    def shape(self) -> torch.Size:
        return torch.broadcast_shapes(self.first.shape, self.second.shape)

    @property
    def device(self) -> torch.device:
        return self.first.device

    @property
    def local_window(self) -> LocalWindow | None:
        for first, second in ((self.first, self.second), (self.second, self.first)):
            window = first.local_window
            if window is not None and window.keys is None and second.shape[-2] == 1:
                return window._replace(keys=second)
        return None

    def readable(self) -> Tensor | None:
        if self.first.shape[-2] > 1 and self.second.shape[-2] > 1:
            # together they may hide a key that each of them shows to a query
            return self.dense().any(-2)
        first = self.first.readable()
        second = self.second.readable()
        if first is None or second is None:
            return second if first is None else first
        return first & second

    def with_head_axis(self) -> "Both":
        return Both(self.first.with_head_axis(), self.second.with_head_axis())

    def select(self, rows: Tensor) -> "Both":
        return Both(self.first.select(rows), self.second.select(rows))

    def select_queries(self, queries: Sequence[int]) -> "Both":
        return Both(
            self.first.select_queries(queries), self.second.select_queries(queries)
        )


def as_mask(mask: Mask | Tensor) -> Mask:
    """Convert a boolean tensor to a mask; return a mask as it is.

    Raises:
        TypeError: It is anything else. Float and 0/1 masks are refused because their
            polarity is ambiguous.
    """
    if isinstance(mask, Mask):
        return mask
    if not isinstance(mask, Tensor):
        raise TypeError(
            "a mask is a boolean tensor or made by regard.attention.masks, "
            f"not {type(mask).__name__}"
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            "a mask is boolean and True means the key may be attended to; got "
            f"{mask.dtype}: write `mask == 1` or `mask.bool()`, or `~mask` if True "
            "meant hidden"
        )
    return Dense(torch.atleast_2d(mask))


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys before the end of each sequence.

    Attributes:
        lengths: Lengths of the sequences, `(*batch,)`.
        size: The padded number of keys.
    """

    lengths: Tensor
    size: int

    @cache_tensor
    def _tensor(self) -> Tensor:
        positions = torch.arange(self.size, device=self.lengths.device)
        return positions < self.lengths[..., None]

    def dense(self) -> Tensor:
        return self._tensor[..., None, :]

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.lengths.shape, 1, self.size))

    @property
    def device(self) -> torch.device:
        return self.lengths.device

    def readable(self) -> Tensor:
        return self._tensor

    def with_head_axis(self) -> "Padding":
        return Padding(self.lengths[..., None], self.size)

    def select(self, rows: Tensor) -> "Padding":
        return Padding(self.lengths[rows], self.size)

    def select_queries(self, queries: Sequence[int]) -> "Padding":
        return self


@dataclass(frozen=True, eq=False)
class WindowMask(Mask):
    """The keys from `before` positions before the query's own to `after` behind it.

    If `before` or `after` is None, there is no limit. The first `sinks` keys are allowed whatever `before` is.
    `first` is the position of the first query among the keys.
    """

    queries: int
    keys: int
    before: int | None
    after: int | None
    first: int
    on: torch.device | None = None
    sinks: int = 0

    @cache_tensor
    def _tensor(self) -> Tensor:
        return self._allow(torch.arange(self.queries, device=self.on))

    def _allow(self, queries: Tensor) -> Tensor:
        positions = torch.arange(self.keys, device=self.on)
        distance = positions - (queries + self.first)[:, None]
        allowed = torch.ones_like(distance, dtype=torch.bool)
        if self.before is not None:
            allowed &= distance >= -self.before
            allowed[:, : self.sinks] = True
        if self.after is not None:
            allowed &= distance <= self.after
        return allowed

    def dense(self) -> Tensor:
        return self._tensor

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.queries, self.keys))

    @property
    def device(self) -> torch.device:
        return torch.empty(0, device=self.on).device

    @property
    def is_causal(self) -> bool:
        square = self.first == 0 and self.queries == self.keys
        return square and self.before is None and self.after == 0

    @property
    def local_window(self) -> LocalWindow | None:
        if self.sinks or self.before is None or self.after is None:
            return None
        return LocalWindow(self.before, self.after, self.first)

    def with_head_axis(self) -> "WindowMask":
        return self

    def select(self, rows: Tensor) -> "WindowMask":
        return self

    def readable(self) -> Tensor | None:
        if not self.queries:
            return torch.zeros(self.keys, dtype=torch.bool, device=self.on)
        low = 0 if self.before is None else self.first - self.before
        last = self.first + self.queries
        high = self.keys if self.after is None else last + self.after
        if low <= 0 and high >= self.keys:
            return None
        positions = torch.arange(self.keys, device=self.on)
        return ((positions >= low) | (positions < self.sinks)) & (positions < high)

    def select_queries(self, queries: Sequence[int]) -> Dense:
        indices = torch.tensor(queries, dtype=torch.int64, device=self.on)
        return Dense(self._allow(indices))


def padding(lengths: Tensor, size: int) -> Padding:
    """Mask the keys from each sequence's end on: `(*batch, 1, size)`.

    Args:
        lengths: Whole numbers, `(*batch,)`.
        size: Number of keys.

    Raises:
        TypeError: Lengths are not whole numbers.
        ValueError: A length is negative or beyond `size`.
    """
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(
            f"lengths have dtype {lengths.dtype}; give one whole number per sequence"
        )
    # a traced graph has no values to check
    if lengths.numel() and not torch.compiler.is_compiling():
        extremes = int(lengths.min()), int(lengths.max())
        if not 0 <= extremes[0] <= extremes[1] <= size:
            raise ValueError(
                f"lengths lie in {[*extremes]}; they must lie in [0, {size}]"
            )
    return Padding(lengths, size)


def causal(
    queries: int,
    keys: int | None = None,
    *,
    device: torch.device | None = None,
) -> WindowMask:
    """Let position i attend to positions j <= i: `(queries, keys)`.

    The queries are the last ones of the `keys` positions: `causal(1, n)` is one
    decoding step with a cache of n, and `causal(n, n)` is the lower triangle.
    """
    return window(
        queries,
        keys,
        before=None,
        after=0,
        device=device,
    )


def window(
    queries: int,
    keys: int | None = None,
    *,
    before: int | None = None,
    after: int | None = None,
    first: int | None = None,
    sinks: int = 0,
    device: torch.device | None = None,
) -> WindowMask:
    """Let position i attend to positions i - before to i + after: `(queries, keys)`.

    Args:
        queries: Number of queries.
        keys: Number of keys; by default that of the queries.
        before: Number of keys before the query's position; None for all.
        after: Number of keys behind it; None for all.
        first: Position of the first query among the keys. By default the last query
            stands at the last key.
        sinks: Number of first keys that are always allowed (Xiao 2023, 2309.17453).
        device: Device of the boolean tensor.

    Raises:
        ValueError: A size is negative, or there are more queries than keys and no
            `first`.
    """
    keys = queries if keys is None else keys
    sizes = queries, keys, before or 0, after or 0, sinks
    if min(sizes) < 0:
        raise ValueError(
            "queries, keys, before, after and sinks must not be negative; got "
            f"{', '.join(map(str, sizes))}"
        )
    if first is None and queries > keys:
        raise ValueError(
            f"{queries} queries cannot be the last of {keys} keys; say where they stand "
            "with `first`"
        )
    first = keys - queries if first is None else first
    return WindowMask(
        queries,
        keys,
        before,
        after,
        first,
        device,
        sinks,
    )
