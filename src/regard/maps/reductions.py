"""What is kept of weights in place of all of them: the greatest, the entropy of each row, the sums over queries.

A reduction is given the weights of some queries at a time, so that of a long read no tensor of all queries by all keys
need ever be there. Whatever is kept has as many axes as weights have.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.maps.entropy import bits
from regard.shapes import Weights

TOGETHER = 256
"""Queries whose weights are there at a time, where less than these is kept."""


class Kept(NamedTuple):
    """What is kept of some queries, and where it is single weights the keys that they belong to."""

    values: Tensor
    places: Tensor | None = None


class Reduction(ABC):
    """Makes less of weights `(*batch, query, key)`."""

    @abstractmethod
    def of(self, weights: Weights) -> Kept:
        """What is kept of some queries."""

    def parts(self, queries: Sequence[int]) -> Iterable[Sequence[int]]:
        """The queries, those together that are looked at together."""
        firsts = range(0, max(1, len(queries)), TOGETHER)  # of no queries too there is a tensor
        return (queries[first : first + TOGETHER] for first in firsts)

    def after(self, before: list[Tensor], found: Tensor) -> list[Tensor]:
        """What is kept of earlier queries, and now of these too: one behind the other along the query axis."""
        before.append(found)
        return before


@dataclass(frozen=True)
class Whole(Reduction):
    """The weights themselves, `(*batch, query, key)`."""

    def of(self, weights: Weights) -> Kept:
        return Kept(weights)

    def parts(self, queries: Sequence[int]) -> Iterable[Sequence[int]]:
        return [queries]


@dataclass(frozen=True)
class Greatest(Reduction):
    """The greatest weights of each query, the first the greatest, `(*batch, query, count)`, and whose they are; by
    default one, the arg-max. Fewer where there are not so many keys. Raises ValueError for a count below 1."""

    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"the greatest {self.count} weights are asked for; expected at least 1 of each query")

    def of(self, weights: Weights) -> Kept:
        return Kept(*weights.topk(min(self.count, weights.shape[-1]), -1))


@dataclass(frozen=True)
class Entropy(Reduction):
    """How evenly each query reads, in bits, `(*batch, query, 1)`: 0 where it reads one key, log2 S where it reads all S
    alike, NaN where it reads nothing. Of rows that do not sum to 1 it is that of their shares."""

    def of(self, weights: Weights) -> Kept:
        return Kept(bits(wide(weights))[..., None])


@dataclass(frozen=True)
class Totals(Reduction):
    """How much each key is read by all queries together, `(*batch, 1, key)`."""

    def of(self, weights: Weights) -> Kept:
        return Kept(wide(weights).sum(-2, keepdim=True))

    def after(self, before: list[Tensor], found: Tensor) -> list[Tensor]:
        if not before or before[-1].shape[:-2] != found.shape[:-2]:
            return super().after(before, found)  # of another batch: whoever joins them says so
        keys = max(found.shape[-1], before[-1].shape[-1])
        one, other = (functional.pad(each, (0, keys - each.shape[-1])) for each in (before.pop(), found))
        return super().after(before, one + other)


def wide(weights: Tensor) -> Tensor:
    """In single precision at least: half of it would lose much of a long sum."""
    return weights.to(torch.promote_types(weights.dtype, torch.float32))
