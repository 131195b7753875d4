"""The mask protocol, boolean tensors as masks, and the conjunction of two masks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import and_
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map


class Near(NamedTuple):
    """A window of keys around each query. The queries stand at `first`, `first` + 1, ... among the keys; each reads
    from `before` keys before its position to `after` keys behind it. `keys`, `(*batch, 1, key)`, masks keys for all
    queries."""

    before: int
    after: int
    first: int
    keys: "Mask | None" = None


class Within(NamedTuple):
    """Documents of these lengths one behind the other, the same in every row; each position reads its own document,
    with `causal` up to itself."""

    lengths: tuple[int, ...]
    causal: bool = False


Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Whether a query may read a key, of the numbers of row, head, query and key."""


def entry(tensor: Tensor, *places: Tensor) -> Tensor:
    """The entry at these places, the last of which is that of the last axis; along an axis of size 1 it is the
    first."""
    axes = zip(places[len(places) - tensor.ndim :], tensor.shape, strict=True)
    return tensor[tuple(place if size > 1 else place * 0 for place, size in axes)]


class Mask(ABC):
    """A boolean `(*batch, query, key)` mask, where an axis of size 1 broadcasts."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The boolean tensor, broadcastable to `(*batch, query, key)`."""

    @abstractmethod
    def readable(self) -> Tensor | None:
        """`(*batch, key)`: keys that at least one query may read; None if all keys are readable."""

    @abstractmethod
    def over_heads(self) -> "Mask":
        """The same mask for scores with a head axis before `(query, key)`."""

    @abstractmethod
    def select(self, rows: Tensor) -> "Mask":
        """The mask of the batch rows `rows` `(rows,)`, in this order; rows may repeat."""

    @abstractmethod
    def of_queries(self, places: Sequence[int]) -> "Mask":
        """The mask of the queries at these places."""

    def rule(self) -> Rule:
        """The mask of scores with a head axis as a function of one pair, which a compiler makes part of a kernel. A
        subclass with a structure computes it from that, without the dense tensor."""
        return partial(entry, self.dense())

    def of_query(self, place: int) -> "Mask":
        """The mask of the query at this place."""
        return self.of_queries([place])

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Shape of the dense tensor, without computing it."""

    @property
    @abstractmethod
    def lies_on(self) -> torch.device:
        """Device of the dense tensor."""

    @property
    def is_causal(self) -> bool:
        """True only for the square lower triangle, which kernels know by name."""
        return False

    @property
    def near(self) -> "Near | None":
        """The window, if every query reads only keys near its own position; else None."""
        return None

    @property
    def within(self) -> "Within | None":
        """The documents, if the mask is theirs alone; else None."""
        return None

    def __and__(self, other: "Mask | Tensor | None") -> "Mask":
        return self if other is None else Both(self, as_mask(other))

    def __rand__(self, other: "Mask | Tensor | None") -> "Mask":
        return self if other is None else Both(as_mask(other), self)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def densify(x):
            return x.dense() if isinstance(x, Mask) else x

        return function(
            *tree_map(densify, tuple(args)), **tree_map(densify, kwargs or {})
        )


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """Any boolean tensor, broadcastable to `(*batch, query, key)`."""

    allowed: Tensor

    @property
    def shape(self) -> torch.Size:
        return self.allowed.shape

    @property
    def lies_on(self) -> torch.device:
        return self.allowed.device

    def dense(self) -> Tensor:
        return self.allowed

    def readable(self) -> Tensor | None:
        return self.allowed.any(-2)

    def over_heads(self) -> "Dense":
        return Dense(self.allowed.unsqueeze(-3)) if self.allowed.ndim > 2 else self

    def select(self, rows: Tensor) -> "Dense":
        return (
            Dense(self.allowed[rows])
            if self.allowed.ndim > 2 and self.allowed.shape[0] > 1
            else self
        )

    def of_queries(self, places: Sequence[int]) -> "Dense":
        return (
            self
            if self.allowed.shape[-2] == 1
            else Dense(self.allowed[..., list(places), :])
        )


@dataclass(frozen=True, eq=False)
class Both(Mask):
    """The keys that both masks allow."""

    left: Mask
    right: Mask

    @property
    def shape(self) -> torch.Size:
        return torch.broadcast_shapes(self.left.shape, self.right.shape)

    @property
    def lies_on(self) -> torch.device:
        return self.left.lies_on

    @property
    def near(self) -> Near | None:
        for one, other in ((self.left, self.right), (self.right, self.left)):
            if one.near is not None and one.near.keys is None and other.shape[-2] == 1:
                return one.near._replace(keys=other)
        return None

    @property
    def within(self) -> Within | None:
        for one, other in ((self.left, self.right), (self.right, self.left)):
            if one.within is not None and other.is_causal:
                return one.within._replace(causal=True)
        return None

    def dense(self) -> Tensor:
        return self.left.dense() & self.right.dense()

    def readable(self) -> Tensor | None:
        parts = [
            part
            for part in (self.left.readable(), self.right.readable())
            if part is not None
        ]
        return reduce(and_, parts) if parts else None

    def over_heads(self) -> "Both":
        return Both(self.left.over_heads(), self.right.over_heads())

    def select(self, rows: Tensor) -> "Both":
        return Both(self.left.select(rows), self.right.select(rows))

    def of_queries(self, places: Sequence[int]) -> "Both":
        return Both(self.left.of_queries(places), self.right.of_queries(places))

    def rule(self) -> Rule:
        left, right = self.left.rule(), self.right.rule()
        return lambda *pair: left(*pair) & right(*pair)


def as_mask(mask: Mask | Tensor) -> Mask:
    """Convert a boolean tensor to a mask; a mask is returned as it is.

    Raises:
        TypeError: anything else. Float and 0/1 masks are refused because their polarity is ambiguous.
    """
    if isinstance(mask, Mask):
        return mask
    if not isinstance(mask, Tensor):
        raise TypeError(
            f"a mask is a boolean tensor or made by regard.attention.masks, not {type(mask).__name__}"
        )
    if mask.dtype != torch.bool:
        raise TypeError(
            f"a mask is boolean and True means the key may be attended to; got {mask.dtype}: "
            "write `mask == 1` or `mask.bool()`, or `~mask` if True meant hidden"
        )
    return Dense(torch.atleast_2d(mask))
