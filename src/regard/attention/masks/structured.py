"""Masks defined by a few numbers: padding, causality, a window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from regard.attention.masks.protocol import Dense, Mask, Near, Rule, entry


def cached(make: Callable[[Any], Tensor]) -> property:
    """A cached property. Under torch.compile it is computed each time: a graph that reads a cached tensor would be
    another graph."""
    name = make.__name__

    @wraps(make)
    def get(self: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return make(self)
        if name not in vars(self):
            vars(self)[name] = make(self)
        return vars(self)[name]

    return property(get)


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys before the end of each sequence: `lengths (*batch,)`; `size` is the padded number of keys."""

    lengths: Tensor
    size: int

    @cached
    def _allowed(self) -> Tensor:
        return (
            torch.arange(self.size, device=self.lengths.device)
            < self.lengths[..., None]
        )

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.lengths.shape, 1, self.size))

    @property
    def lies_on(self) -> torch.device:
        return self.lengths.device

    def dense(self) -> Tensor:
        return self._allowed[..., None, :]

    def readable(self) -> Tensor:
        return self._allowed

    def over_heads(self) -> "Padding":
        return Padding(self.lengths[..., None], self.size)

    def select(self, rows: Tensor) -> "Padding":
        return Padding(self.lengths[rows], self.size)

    def of_queries(self, places: Sequence[int]) -> "Padding":
        return self

    def rule(self) -> Rule:
        return lambda row, head, query, key: key < entry(self.lengths, row, head)


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys from `before` positions before the query's own to `after` positions behind it; None means no limit. The
    first `sinks` keys are read whatever `before` is."""

    queries: int
    keys: int
    before: int | None
    after: int | None
    first: int
    device: torch.device | None = None
    sinks: int = 0

    @cached
    def _allowed(self) -> Tensor:
        return self._around(
            torch.arange(self.first, self.first + self.queries, device=self.device)
        )

    def _around(self, positions: Tensor) -> Tensor:
        """The keys that queries at these positions may read."""
        distance = torch.arange(self.keys, device=self.device) - positions[:, None]
        allowed = torch.ones_like(distance, dtype=torch.bool)
        if self.before is not None:
            allowed &= distance >= -self.before
            allowed[:, : self.sinks] = True
        if self.after is not None:
            allowed &= distance <= self.after
        return allowed

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.queries, self.keys))

    @property
    def lies_on(self) -> torch.device:
        return torch.empty(0, device=self.device).device

    @property
    def is_causal(self) -> bool:
        return (
            self.before is None
            and self.after == 0
            and self.first == 0
            and self.queries == self.keys
        )

    @property
    def near(self) -> Near | None:
        if self.sinks:
            return None
        return (
            None
            if self.before is None or self.after is None
            else Near(self.before, self.after, self.first)
        )

    def dense(self) -> Tensor:
        return self._allowed

    def readable(self) -> Tensor | None:
        if not self.queries:
            return torch.zeros(self.keys, dtype=torch.bool, device=self.device)
        low = 0 if self.before is None else self.first - self.before
        high = (
            self.keys if self.after is None else self.first + self.queries + self.after
        )
        if low <= 0 and high >= self.keys:
            return None
        place = torch.arange(self.keys, device=self.device)
        return ((place >= low) | (place < self.sinks)) & (place < high)

    def over_heads(self) -> "Window":
        return self

    def select(self, rows: Tensor) -> "Window":
        return self

    def of_queries(self, places: Sequence[int]) -> "Mask":
        return Dense(
            self._around(
                torch.tensor(places, dtype=torch.int64, device=self.device) + self.first
            )
        )

    def rule(self) -> Rule:
        def allows(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            distance, allowed = key - query - self.first, key >= 0
            if self.before is not None:
                allowed = (distance >= -self.before) | (key < self.sinks)
            return allowed if self.after is None else allowed & (distance <= self.after)

        return allows


def padding(lengths: Tensor, size: int) -> Padding:
    """Mask the keys from each sequence's end on: integer `lengths (*batch,)` and `size` keys -> `(*batch, 1, size)`.

    Raises:
        TypeError: lengths are not integers.
        ValueError: a length is negative or beyond `size`.
    """
    if (
        lengths.is_floating_point()
        or lengths.is_complex()
        or lengths.dtype == torch.bool
    ):
        raise TypeError(
            f"lengths have dtype {lengths.dtype}; give one whole number per sequence"
        )
    if (
        lengths.numel() and not torch.compiler.is_compiling()
    ):  # a traced graph has no values to check
        least, most = int(lengths.min()), int(lengths.max())
        if not 0 <= least <= most <= size:
            raise ValueError(
                f"lengths lie in [{least}, {most}]; they must lie in [0, {size}]"
            )
    return Padding(lengths, size)


def causal(
    queries: int, keys: int | None = None, *, device: torch.device | None = None
) -> Window:
    """Position i reads positions j <= i: `(queries, keys)`. The queries are the last `queries` of the `keys` positions:
    `causal(1, n)` is one decoding step with a cache of n, and `causal(n, n)` is the lower triangle."""
    return window(queries, keys, before=None, after=0, device=device)


def window(
    queries: int,
    keys: int | None = None,
    *,
    before: int | None = None,
    after: int | None = None,
    first: int | None = None,
    sinks: int = 0,
    device: torch.device | None = None,
) -> Window:
    """Position i reads positions i - before to i + after (None: no limit), and of those before it always the first
    `sinks` (Xiao 2023, 2309.17453): `(queries, keys)`.

    `first` is the position of the first query among the keys. By default the last query stands at the last key.

    Raises:
        ValueError: a size, `before`, `after` or `sinks` is negative, or there are more queries than keys and no
            `first`.
    """
    keys = queries if keys is None else keys
    if min(queries, keys, before or 0, after or 0, sinks) < 0:
        raise ValueError(
            f"sizes must not be negative: queries {queries}, keys {keys}, before {before}, after {after}"
        )
    if first is None and queries > keys:
        raise ValueError(
            f"{queries} queries cannot be the last of {keys} keys; say where they stand with `first`"
        )
    return Window(
        queries,
        keys,
        before,
        after,
        keys - queries if first is None else first,
        device,
        sinks,
    )
