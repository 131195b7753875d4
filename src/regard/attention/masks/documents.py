"""Masks of prefixes, of documents packed in a row, and of each head by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from regard.attention.masks.protocol import Dense, Mask, Rule, Within
from regard.attention.masks.structured import Padding, cached, padding
from regard.shapes import Bool, Lengths


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """Each position reads those before it, and all positions of the prefix, whose length is that of `inside`."""

    inside: Padding

    @cached
    def _allowed(self) -> Tensor:
        size, prefix = self.inside.size, self.inside.dense()
        return (
            prefix
            | torch.ones(size, size, dtype=torch.bool, device=prefix.device).tril()
        )

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.inside.shape[:-2], self.inside.size, self.inside.size))

    @property
    def lies_on(self) -> torch.device:
        return self.inside.lies_on

    def dense(self) -> Tensor:
        return self._allowed

    def readable(self) -> None:
        return None

    def over_heads(self) -> "Prefix":
        return Prefix(self.inside.over_heads())

    def select(self, rows: Tensor) -> "Prefix":
        return Prefix(self.inside.select(rows))

    def of_queries(self, places: Sequence[int]) -> Dense:
        return Dense(self._allowed[..., list(places), :])

    def rule(self) -> Rule:
        inside = self.inside.rule()
        return lambda row, head, query, key: (
            (key <= query) | inside(row, head, query, key)
        )


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Documents of these lengths, one behind the other in every row; each position reads its own document. The fused
    path reads document by document, without a tensor of the size of the scores."""

    lengths: tuple[int, ...]
    device: torch.device | None = None

    @cached
    def _allowed(self) -> Tensor:
        return torch.block_diag(
            *(torch.ones(size, size, device=self.device) for size in self.lengths)
        ).bool()

    @property
    def shape(self) -> torch.Size:
        return torch.Size((sum(self.lengths),) * 2)

    @property
    def lies_on(self) -> torch.device:
        return torch.empty(0, device=self.device).device

    @property
    def within(self) -> Within:
        return Within(self.lengths)

    def dense(self) -> Tensor:
        return self._allowed

    def readable(self) -> None:
        return None

    def over_heads(self) -> "Documents":
        return self

    def select(self, rows: Tensor) -> "Documents":
        return self

    def of_queries(self, places: Sequence[int]) -> Dense:
        ends = torch.tensor(self.lengths).cumsum(0)
        first = torch.cat([ends.new_zeros(1), ends])
        found = torch.searchsorted(
            ends, torch.tensor(places, dtype=torch.int64), right=True
        )
        allowed = torch.zeros(
            len(places), int(first[-1]), dtype=torch.bool, device=self.device
        )
        for row, document in enumerate(found.tolist()):
            allowed[row, first[document] : first[document + 1]] = True
        return Dense(allowed)

    def rule(self) -> Rule:
        numbers = (
            torch.arange(len(self.lengths))
            .repeat_interleave(torch.tensor(self.lengths))
            .to(self.device)
        )
        return lambda row, head, query, key: numbers[query] == numbers[key]


@dataclass(frozen=True, eq=False)
class PerHead(Mask):
    """A mask of its own for each head, `(*batch, head, query, key)`, for `MultiHead`."""

    allowed: Bool[Tensor, "*batch head query key"]

    @property
    def shape(self) -> torch.Size:
        return torch.Size((*self.allowed.shape[:-3], *self.allowed.shape[-2:]))

    @property
    def lies_on(self) -> torch.device:
        return self.allowed.device

    def dense(self) -> Tensor:
        """Raises TypeError: a lookup without heads has one mask."""
        raise TypeError(
            "a mask for each head needs heads; read the memory with MultiHead, or give one mask"
        )

    def readable(self) -> Tensor:
        return self.allowed.any(-2).any(-2)

    def over_heads(self) -> Dense:
        return Dense(self.allowed)

    def select(self, rows: Tensor) -> "PerHead":
        return (
            PerHead(self.allowed[rows])
            if self.allowed.ndim > 3 and len(self.allowed) > 1
            else self
        )

    def of_queries(self, places: Sequence[int]) -> "PerHead":
        return (
            self
            if self.allowed.shape[-2] == 1
            else PerHead(self.allowed[..., list(places), :])
        )


def prefix(lengths: Lengths, size: int) -> Prefix:
    """Position i reads positions j <= i and the first `lengths (*batch,)` positions: `(*batch, size, size)`, the mask
    of a prefix language model (Raffel 2020, 1910.10683, section 3.2.1). Raises the errors of `padding`."""
    return Prefix(padding(lengths, size))


def documents(
    lengths: Sequence[int], *, device: torch.device | None = None
) -> Documents:
    """Each position reads its own document only: `(size, size)`, block-diagonal, for documents of these lengths one
    behind the other in every row; `& causal(size)` for what lies before it only.

    Raises:
        ValueError: there is no document, or one without positions.
    """
    if not lengths or min(lengths) < 1:
        raise ValueError(
            f"the lengths of documents are {list(lengths)}; expected at least one, each at least 1"
        )
    return Documents(tuple(lengths), device)


def places(lengths: Sequence[int], *, device: torch.device | None = None) -> Tensor:
    """The position of each token within its document, `(size,)`, for `Memory.places` and position encodings."""
    edges = torch.tensor([0, *lengths]).cumsum(0).tolist()
    return torch.cat(
        [torch.arange(last - first, device=device) for first, last in pairwise(edges)]
    )


def per_head(allowed: Tensor) -> PerHead:
    """A mask of its own for each head of a `MultiHead`; an axis of size 1 broadcasts.

    Raises:
        TypeError: the tensor is not boolean.
        ValueError: there is no head axis.
    """
    if allowed.dtype != torch.bool:
        raise TypeError(
            f"a mask is boolean and True means the key may be attended to; got {allowed.dtype}"
        )
    if allowed.ndim < 3:
        raise ValueError(
            f"masks of heads need axes (*batch, head, query, key); got {tuple(allowed.shape)}"
        )
    return PerHead(allowed)
