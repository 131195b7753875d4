"""The maps of every layer and head with their labels, and the greatest weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from regard.maps.alignment import Alignment, Matrix, Side, join_words
from regard.maps.lookups import Lookups
from regard.maps.reductions import Greatest, Numbers, average_maps, select_maps

COLUMNS = ("layer", "head", "query", "query_token", "key", "key_token", "weight")
"""The columns of `GreatestWeights.rows`."""


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The weights of one pass: a map per layer and head, in the order of the layers.

    Attributes:
        weights: (map, T, S), finite and non-negative.
        source: The keys, S pieces.
        target: The queries, T pieces.
        names: One per map.
        layers: The number of maps in each layer.
    """

    weights: np.ndarray
    source: Side
    target: Side
    names: tuple[str, ...]
    layers: tuple[int, ...]

    @classmethod
    def of(cls, lookups: Lookups) -> "HeadMaps":
        """Return the maps of lookups; amounts become shares of the mean.

        Names have the form of `--map`: `layer 0, head 0`. Without words, each label is
        a word.
        """
        weights = lookups.weights.astype(np.float64)
        layers, heads, *sides = weights.shape
        if lookups.amounts:
            mean = weights.sum(-1, keepdims=True).mean((0, 1), keepdims=True)
            weights = weights / np.where(mean > 0, mean, 1.0)
        names = [f"layer {n // heads}, head {n % heads}" for n in range(layers * heads)]
        return cls(
            weights.reshape(layers * heads, *sides),
            Side.of(lookups.source, lookups.source_words),
            Side.of(lookups.target, lookups.target_words),
            tuple(names),
            (heads,) * layers,
        )

    @property
    def is_self_attention(self) -> bool:
        """Whether a text attends to itself."""
        return self.source.pieces == self.target.pieces

    def by_layer(self) -> list[Float[np.ndarray, "_head target source"]]:
        """Return the maps of each layer."""
        return np.split(self.weights, np.cumsum(self.layers)[:-1])

    def mean(self, numbers: Numbers = None) -> Alignment:
        """Average all maps, or those with these numbers.

        Raises:
            InputError: There is no map of a number.
        """
        weights = average_maps(self.weights, numbers)
        return Alignment(weights, self.source.pieces, self.target.pieces)

    def select(self, numbers: Sequence[int]) -> "HeadMaps":
        """Select the maps with these numbers, as one layer.

        Raises:
            InputError: There is no map of a number.
        """
        weights = select_maps(self.weights, numbers)
        names = tuple(self.names[number] for number in numbers)
        return replace(
            self,
            weights=weights,
            names=names,
            layers=(len(names),),
        )

    def with_maps(self, maps: Mapping[str, Matrix]) -> "HeadMaps":
        """Return other maps of the same pieces, by name, as one layer.

        Raises:
            ValueError: There are none.
        """
        return replace(
            self,
            weights=np.stack([*maps.values()]),
            names=tuple(maps),
            layers=(len(maps),),
        )

    def between_words(self) -> "HeadMaps":
        """Return the maps between words (`join_words`)."""
        source, target = self.source.words, self.target.words
        return replace(
            self,
            weights=join_words(self.weights, source.indices, target.indices),
            source=Side.of(source.labels),
            target=Side.of(target.labels),
        )

    def part(self, source: slice, target: slice) -> "HeadMaps":
        """Restrict the maps to some pieces, each of which is then a word."""
        return replace(
            self,
            weights=self.weights[:, target, source],
            source=Side.of(self.source.pieces[source]),
            target=Side.of(self.target.pieces[target]),
        )


@dataclass(frozen=True, eq=False)
class GreatestWeights:
    """The greatest weights of each query in every layer and head of lookups.

    Signed weights are compared by their magnitude.

    Attributes:
        lookups: The lookups.
        count: Weights per query, the greatest first. Default: all, by their keys.

    Raises:
        InputError: The count is below 1.
    """

    lookups: Lookups
    count: int | None = None

    def __post_init__(self) -> None:
        if self.count is not None:
            Greatest(self.count)  # which checks it

    def rows(
        self, maps: Numbers = None
    ) -> Iterator[tuple[int, int, int, str, int, str, float]]:
        """Yield the values of `COLUMNS` of each weight but 0.

        Queries and keys are positions from 0.

        Args:
            maps: These maps only, layer x heads + head.

        Raises:
            InputError: There is no map of a number.
        """
        source, target = self.lookups.source, self.lookups.target
        layers, heads, *sides = self.lookups.weights.shape
        weights = self.lookups.weights.reshape(layers * heads, *sides)
        numbers = range(layers * heads) if maps is None else maps
        for number, rows in zip(numbers, select_maps(weights, numbers), strict=True):
            place = divmod(number, heads)
            for query, row in enumerate(rows):
                keys = np.arange(len(row))
                if self.count is not None:
                    keys = np.argsort(-np.abs(row), kind="stable")[: self.count]
                for key in keys[row[keys] != 0].tolist():
                    weight = float(row[key])
                    yield (*place, query, target[query], key, source[key], weight)
