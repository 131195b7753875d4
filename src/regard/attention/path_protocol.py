"""The protocol of paths: a lookup, its result, and a way to compute it."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor

from regard.attention.align import Align, Draw
from regard.attention.biases import PairBias
from regard.attention.history import History
from regard.attention.memory import Memory
from regard.attention.scores.protocol import Score
from regard.shapes import Context, Weights


class Lookup(NamedTuple):
    """Queries `(*batch, query, query_width)`, a prepared memory, and the score, alignment and history that read it.
    `state` is the alignment's, `bias` that of relative positions and of the memory.

    observed: an observer records the lookup.
    needs_weights: the weights of all queries are needed.
    dropout: the share of weights to set to 0.
    """

    score: Score
    align: Align
    history: History | None
    query: Tensor
    memory: Memory
    state: Any = None
    observed: bool = False
    needs_weights: bool = False
    bias: PairBias | None = None
    dropout: float = 0.0


class Read(NamedTuple):
    """The result of a lookup: context `(*batch, query, value_width)` and the alignment's state. Weights, scores before
    the mask and draws are present if the path computes them."""

    context: Context
    state: Any = None
    weights: Weights | None = None
    scores: Tensor | None = None
    draws: tuple[Draw, ...] = ()


class Path(ABC):
    """A way to compute a read."""

    @abstractmethod
    def serves(self, lookup: Lookup) -> bool:
        """Whether it can do this lookup and is the fastest path that can."""

    @abstractmethod
    def read(self, lookup: Lookup) -> Read:
        """Do a lookup that it serves."""
