"""What is added to the scores of a lookup: a tensor, or the bias of relative positions of the pairs that are needed."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from regard.attention.positions import RelativePositions
from regard.kernels.product import part, shared_part


@runtime_checkable
class PairBias(Protocol):
    """What is added to the score of each pair of a lookup."""

    def of(self, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> Tensor:
        """The bias of the chosen heads and queries (None: all), `([*batch,] [head,] query, key)`."""
        ...


class TensorBias(NamedTuple):
    """A tensor that broadcasts to the scores, `([*batch,] [head,] query, key)`."""

    tensor: Tensor

    def of(self, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> Tensor:
        return shared_part(self.tensor, heads, rows)


class SumOfBiases(NamedTuple):
    """Two biases together."""

    one: PairBias
    other: PairBias

    def of(self, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> Tensor:
        return self.one.of(heads, rows) + self.other.of(heads, rows)


class Bias(NamedTuple):
    """The bias of one lookup, computed for the pairs that are needed."""

    positions: RelativePositions
    query: Tensor
    places: Tensor
    keys: Tensor

    def of(self, heads: Sequence[int] | None = None, rows: Sequence[int] | None = None) -> Tensor:
        """The bias of the chosen heads and queries (None: all), `([*batch,] [head,] query, key)`."""
        places = self.places if rows is None else self.places[..., list(rows)]
        found = self.positions.bias(part(self.query, None, rows), places, self.keys)
        return found if heads is None or found.ndim < 3 else part(found, heads, None)
