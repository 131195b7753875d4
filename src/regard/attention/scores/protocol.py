"""The score protocol: a key side, prepared once per memory, a query side, and a rule for each pair."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.kernels.additive import additive, can_fuse, fused_additive
from regard.kernels.product import products
from regard.shapes import Key, Query, Scores


def weight(heads: int | None, rows: int, columns: int) -> nn.Parameter:
    """A matrix `([heads,] rows, columns)` for `x @ weight`, uniform within +-1/sqrt(rows)."""
    shape = (rows, columns) if heads is None else (heads, rows, columns)
    bound = max(rows, 1) ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


class Sides(NamedTuple):
    """The two sides of a score: query `(*batch, query, width)` and key `(*batch, key, width)`. The score is scale *
    sum_i q_i k_i; with an energy v `([head,] width)` it is sum_i v_i tanh(q_i + k_i). An `exact` product is computed in
    the sides' own dtype, under autocast too."""

    query: Tensor
    key: Tensor
    scale: float = 1.0
    energy: Tensor | None = None
    exact: bool = False

    def scores(self) -> Scores:
        """The score of every pair, `(*batch, query, key)`."""
        if self.energy is None:
            return products(self.query, self.key, self.scale, exact=self.exact)
        return additive(self.query, self.key, self.energy)


class Score(nn.Module, ABC):
    """Score every query against every key."""

    query_width: int | None = None
    """Width of the queries; None for the width of the keys (location scores: any)."""
    key_width: int | None = None
    heads: int | None = None
    """Number of heads for which it has weights of their own; None for any number of heads."""
    by_place = False
    """Whether a key's score depends on its position, so that scores of selected keys would differ."""
    shares_keys = False
    """Whether several heads of queries can read one head of keys that is not repeated: no head has key weights of its
    own."""

    @property
    def widths(self) -> tuple[int | None, int | None, None]:
        """Expected widths of queries, keys and values; None for any (queries: the width of the keys)."""
        return self.query_width, self.key_width, None

    def prepare(self, key: Key) -> Tensor:
        """Compute the key side, once per memory: `(*batch, key, any width)`. `forward` expects it as `key`."""
        return key

    def sides(self, query: Query, key: Key) -> Sides | None:
        """The two sides of the score, for prepared keys; None for a score without sides."""
        return None

    @abstractmethod
    def forward(self, query: Query, key: Key) -> Scores:
        """Score queries against prepared keys."""


class Product(Score):
    """A score that is the product of its two sides. PyTorch's fused attention can compute it."""

    @abstractmethod
    def sides(self, query: Query, key: Key) -> Sides: ...

    def forward(self, query: Query, key: Key) -> Scores:
        """Raises ValueError for sides of different widths."""
        sides = self.sides(query, key)
        if sides.query.shape[-1] != key.shape[-1]:
            raise ValueError(
                f"a product needs equal widths; query {tuple(query.shape)} gives {sides.query.shape[-1]}, "
                f"key is {tuple(key.shape)}"
            )
        return sides.scores()


class TanhSum(Score):
    """A score that is an energy times the tanh of the sum of its two sides. The additive kernel can compute it."""

    hidden_width: int | None = None
    """Width of the sum, which a history adds to; None if it is not known."""

    @abstractmethod
    def sides(self, query: Query, key: Key) -> Sides: ...

    def forward(self, query: Query, key: Key) -> Scores:
        return self.sides(query, key).scores()


def unmodified(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a call of the module runs exactly the code of `kind`: no subclass overrides `forward`, and there are no
    hooks."""
    if (
        not isinstance(module, kind)
        or module._forward_hooks
        or module._forward_pre_hooks
    ):
        return False
    return getattr(module.forward, "__func__", None) is kind.forward


def score_memory(score: Score, query: Query, memory: Memory) -> Scores:
    """Score queries against a prepared memory; an additive score by its kernel where that serves the keys."""
    if not (unmodified(score, TanhSum) and can_fuse(memory.key)):
        return score(query, memory.key)
    sides = score.sides(query, memory.key)
    assert sides is not None
    assert sides.energy is not None
    return fused_additive(sides.query, memory.key, sides.energy, memory.exponentials)
