"""The maps of every layer and head, with their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from einops import rearrange
from jaxtyping import Float

from regard.maps.alignment import Alignment
from regard.maps.averages import average_of, chosen, in_shares_of_mean
from regard.maps.lookups import Lookups
from regard.maps.words import Words, join_words


@dataclass(frozen=True)
class Side:
    """The pieces along one side of a map, and their words."""

    pieces: tuple[str, ...]
    words: Words

    @classmethod
    def of(cls, pieces: Sequence[str], words: Words | None = None) -> "Side":
        """Pieces and their words; by default each piece is a word."""
        return cls(
            tuple(pieces),
            Words(tuple(pieces), tuple(range(len(pieces)))) if words is None else words,
        )

    def after(self, label: str, count: int) -> "Side":
        """The side with `count` more pieces of this label in front, each a word; a `count` below 1 adds none."""
        count = max(0, count)
        first = (label,) * count
        indices = (*range(count), *(count + index for index in self.words.indices))
        return Side(first + self.pieces, Words(first + self.words.labels, indices))


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The weights of one pass, one map per layer and head, in the order of the layers.

    weights: (map, T, S), finite and non-negative.
    source, target: the keys and the queries, S and T pieces.
    names: one per map.
    layers: number of maps in each layer.

    Raises ValueError if these do not fit together, and as `Alignment` does.
    """

    weights: np.ndarray
    source: Side
    target: Side
    names: tuple[str, ...]
    layers: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.names) == sum(self.layers):
            raise ValueError(
                f"{len(self.weights)} maps, {len(self.names)} names and layers of {self.layers} maps do not fit"
            )
        for each in self.weights:
            Alignment(each, self.source.pieces, self.target.pieces)

    @classmethod
    def of(cls, lookups: Lookups) -> "HeadMaps":
        """The maps of lookups; amounts become shares of the mean. Names have the form of `--map`: `layer 0, head 0`.
        Labels without words are a word each."""
        layers, heads = lookups.weights.shape[:2]
        names = [
            f"layer {layer}, head {head}"
            for layer in range(layers)
            for head in range(heads)
        ]
        every = lookups.weights.astype(np.float64)
        every = in_shares_of_mean(every) if lookups.amounts else every
        weights = rearrange(
            every, "layer head target source -> (layer head) target source"
        )
        source, target = (
            Side.of(lookups.source, lookups.source_words),
            Side.of(lookups.target, lookups.target_words),
        )
        return cls(weights, source, target, tuple(names), (heads,) * layers)

    @property
    def is_self_attention(self) -> bool:
        """Whether a text reads itself."""
        return self.source.pieces == self.target.pieces

    def by_layer(self) -> list[Float[np.ndarray, "_head target source"]]:
        """The maps of each layer."""
        return np.split(self.weights, np.cumsum(self.layers)[:-1])

    def mean(self, numbers: Sequence[int] | None = None) -> Alignment:
        """The mean of all maps, or of those with these numbers. Raises InputError for a number without a map."""
        return Alignment(
            average_of(self.weights, numbers), self.source.pieces, self.target.pieces
        )

    def only(self, numbers: Sequence[int]) -> "HeadMaps":
        """The maps with these numbers, as one layer. Raises InputError for a number without a map."""
        weights = chosen(self.weights, numbers)
        return self.other(
            {
                self.names[number]: each
                for number, each in zip(numbers, weights, strict=True)
            }
        )

    def other(
        self, maps: Mapping[str, Float[np.ndarray, "target source"]]
    ) -> "HeadMaps":
        """Other maps of the same pieces, by name, as one layer. Raises ValueError if there are none."""
        return replace(
            self,
            weights=np.stack([*maps.values()]),
            names=tuple(maps),
            layers=(len(maps),),
        )

    def between_words(self) -> "HeadMaps":
        """The maps between words: sums over source pieces, means over target pieces (`join_words`)."""
        source, target = self.source.words, self.target.words
        weights = join_words(self.weights, source.indices, target.indices)
        return replace(
            self,
            weights=weights,
            source=Side.of(source.labels),
            target=Side.of(target.labels),
        )

    def part(self, source: slice, target: slice) -> "HeadMaps":
        """The maps restricted to these pieces, each of which is then a word."""
        weights = self.weights[:, target, source]
        return replace(
            self,
            weights=weights,
            source=Side.of(self.source.pieces[source]),
            target=Side.of(self.target.pieces[target]),
        )
