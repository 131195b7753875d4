"""Reductions of attention weights: the greatest, the entropy of each row, the sums over queries.

A reduction reads the weights of some queries at a time, so that no tensor of all queries by all keys is needed. Its
result has as many axes as the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor
from torch.nn import functional

from regard.maps.entropy import bits
from regard.shapes import Weights, wide

TOGETHER, NUMBERS = 256, 1 << 20
"""Number of queries whose weights exist at one time, and of their weights; of one query all exist."""


class Kept(NamedTuple):
    """The reduced values of some queries, and for single weights their keys."""

    values: Tensor
    places: Tensor | None = None


def gathered(groups: Iterable[Kept], queries: int) -> Kept:
    """The reduced values of groups of queries, one group behind the other, in one tensor.

    It is allocated with the first group. A small result of each group would lie between the large weights of two
    groups, and memory would grow with queries x keys: freed weights would leave no place that is large enough.
    """
    whole: list[Tensor] = []
    first = 0
    for group in groups:
        parts = [each for each in group if each is not None]
        whole = whole or [
            each.new_empty((*each.shape[:-2], queries, each.shape[-1]))
            for each in parts
        ]
        last = first + parts[0].shape[-2]
        for one, each in zip(whole, parts, strict=True):
            one[..., first:last, :] = each
        first = last
    return Kept(*whole)


class Reduction(ABC):
    """Reduce weights `(*batch, query, key)`.

    keeps_keys: whether the result's last axis is that of the keys.
    """

    keeps_keys: ClassVar[bool] = False

    @abstractmethod
    def of(self, weights: Weights) -> Kept:
        """Reduce the weights of some queries."""

    def parts(self, queries: Sequence[int], width: int = 0) -> Iterable[Sequence[int]]:
        """Split the queries, each with `width` weights (0: unknown), into groups that are reduced together."""
        together = min(TOGETHER, max(1, NUMBERS // max(1, width)))
        firsts = range(
            0, max(1, len(queries)), together
        )  # one empty group if there are no queries
        return (queries[first : first + together] for first in firsts)

    def after(self, before: list[Tensor], found: Tensor) -> list[Tensor]:
        """Add the reduced values of further queries: a list of tensors to join along the query axis."""
        before.append(found)
        return before


@dataclass(frozen=True)
class Whole(Reduction):
    """Keep the weights, `(*batch, query, key)`."""

    keeps_keys = True

    def of(self, weights: Weights) -> Kept:
        return Kept(weights)

    def parts(self, queries: Sequence[int], width: int = 0) -> Iterable[Sequence[int]]:
        return [queries]


@dataclass(frozen=True)
class Greatest(Reduction):
    """Keep the greatest weights of each query in descending order, `(*batch, query, count)`, and their keys; by default
    one, the arg-max. There are fewer if there are fewer keys. Raises ValueError for a count below 1."""

    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(
                f"count is {self.count}; expected at least 1 weight per query"
            )

    def of(self, weights: Weights) -> Kept:
        return Kept(*weights.topk(min(self.count, weights.shape[-1]), -1))


@dataclass(frozen=True)
class Entropy(Reduction):
    """Keep the entropy of each query in bits, `(*batch, query, 1)`: 0 for a single key, log2 S for S equal weights, NaN
    without weight. Rows are divided by their sum."""

    def of(self, weights: Weights) -> Kept:
        return Kept(bits(wide(weights))[..., None])


@dataclass(frozen=True)
class Totals(Reduction):
    """Keep the total weight of each key over all queries, `(*batch, 1, key)`."""

    keeps_keys = True

    def of(self, weights: Weights) -> Kept:
        return Kept(wide(weights).sum(-2, keepdim=True))

    def after(self, before: list[Tensor], found: Tensor) -> list[Tensor]:
        if not before or before[-1].shape[:-2] != found.shape[:-2]:
            return super().after(
                before, found
            )  # another batch: joining raises an error
        keys = max(found.shape[-1], before[-1].shape[-1])
        one, other = (
            functional.pad(each, (0, keys - each.shape[-1]))
            for each in (before.pop(), found)
        )
        return super().after(before, one + other)
