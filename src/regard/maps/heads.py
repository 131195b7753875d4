"""The maps of every layer and head with their labels, and the greatest weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int

from regard.errors import InputError
from regard.maps.alignment import Alignment, Words, join_words
from regard.maps.lookups import Lookups
from regard.maps.reductions import Greatest, average_maps, divide_by_mean, select_maps

COLUMNS = ("layer", "head", "query", "query_token", "key", "key_token", "weight")
"""The columns of `GreatestWeights.rows`."""


@dataclass(frozen=True)
class Side:
    """The pieces along one side of a map, and their words."""

    pieces: tuple[str, ...]
    words: Words

    @classmethod
    def of(cls, pieces: Sequence[str], words: Words | None = None) -> "Side":
        """Return a side; by default each piece is a word."""
        if words is None:
            words = Words(tuple(pieces), tuple(range(len(pieces))))
        return cls(tuple(pieces), words)

    def prepend(self, label: str, count: int) -> "Side":
        """Put `count` pieces of this label in front, each a word; none below 1."""
        count = max(0, count)
        labels = (label,) * count
        indices = (*range(count), *(count + index for index in self.words.indices))
        return Side(labels + self.pieces, Words(labels + self.words.labels, indices))


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The weights of one pass: a map per layer and head, in the order of the layers.

    Attributes:
        weights: (map, T, S), finite and non-negative.
        source: The keys, S pieces.
        target: The queries, T pieces.
        names: One per map.
        layers: The number of maps in each layer.

    Raises:
        ValueError: These do not fit together, or as `Alignment`.
    """

    weights: np.ndarray
    source: Side
    target: Side
    names: tuple[str, ...]
    layers: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.names) == sum(self.layers):
            raise ValueError(
                f"{len(self.weights)} maps, {len(self.names)} names and layers of "
                f"{self.layers} maps do not fit"
            )
        for weights in self.weights:
            Alignment(weights, self.source.pieces, self.target.pieces)

    @classmethod
    def of(cls, lookups: Lookups) -> "HeadMaps":
        """Return the maps of lookups; amounts become shares of the mean.

        Names have the form of `--map`: `layer 0, head 0`. Without words, each label is
        a word.
        """
        layers, heads = lookups.weights.shape[:2]
        names = []
        for layer in range(layers):
            names += [f"layer {layer}, head {head}" for head in range(heads)]
        weights = lookups.weights.astype(np.float64)
        if lookups.amounts:
            weights = divide_by_mean(weights)
        return cls(
            rearrange(
                weights, "layer head target source -> (layer head) target source"
            ),
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

    def mean(self, numbers: Sequence[int] | None = None) -> Alignment:
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
        return replace(self, weights=weights, names=names, layers=(len(names),))

    def with_maps(
        self, maps: Mapping[str, Float[np.ndarray, "target source"]]
    ) -> "HeadMaps":
        """Return other maps of the same pieces, by name, as one layer.

        Raises:
            ValueError: There are none.
        """
        weights, names = np.stack([*maps.values()]), tuple(maps)
        return replace(self, weights=weights, names=names, layers=(len(maps),))

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
    """Some weights of each query in every layer and head, and their keys.

    Attributes:
        weights: The greatest first, or all in the order of the keys.
        keys: Their positions; below 0 where a query has fewer keys.
        source: The labels of all keys.
        target: The labels of the queries.
        first: The position of the first query.
    """

    weights: Float[np.ndarray, "layer head query count"]
    keys: Int[np.ndarray, "layer head query count"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    first: int = 0

    @classmethod
    def of(cls, lookups: Lookups, count: int | None = None) -> "GreatestWeights":
        """Return the greatest weights of lookups, or all without a count.

        Signed weights are compared by their magnitude.

        Raises:
            InputError: The count is below 1.
        """
        weights = torch.tensor(lookups.weights)
        if count is None:
            keys = torch.arange(weights.shape[-1]).expand(weights.shape)
        else:
            reduced = keep_greatest(count).of(weights.abs())
            assert reduced.places is not None
            keys, weights = reduced.places, weights.gather(-1, reduced.places)
        return cls(weights.numpy(), keys.numpy(), lookups.source, lookups.target)

    def rows(
        self, maps: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, int, str, int, str, float]]:
        """Yield the values of `COLUMNS` of each weight but 0.

        Queries and keys are positions from 0.

        Args:
            maps: These maps only, layer x heads + head.

        Raises:
            InputError: There is no map of a number.
        """
        layers, heads, queries, _ = self.weights.shape
        weights = rearrange(
            self.weights, "layer head query count -> (layer head) query count"
        )
        numbers = range(layers * heads) if maps is None else maps
        for number, rows in zip(numbers, select_maps(weights, numbers), strict=True):
            layer, head = divmod(number, heads)
            for query in range(queries):
                position, label = self.first + query, self.target[query]
                keys = self.keys[layer, head, query].tolist()
                for key, weight in zip(keys, rows[query].tolist(), strict=True):
                    if weight and key >= 0:
                        source = self.source[key]
                        yield layer, head, position, label, key, source, weight


def keep_greatest(count: int) -> Greatest:
    """Return the reduction that keeps so many weights of each query.

    Raises:
        InputError: The count is below 1.
    """
    if count < 1:
        raise InputError(
            f"the number of weights per query is {count}; expected 1 or more"
        )
    return Greatest(count)
