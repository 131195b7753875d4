"""What every head of every layer read, with the labels of what it read."""

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
    """The pieces along one side of a map, and the words that they make."""

    pieces: tuple[str, ...]
    words: Words

    @classmethod
    def of(cls, pieces: Sequence[str], words: Words | None = None) -> "Side":
        """Pieces and their words; without these each is one."""
        return cls(tuple(pieces), Words(tuple(pieces), tuple(range(len(pieces)))) if words is None else words)

    def after(self, label: str, count: int) -> "Side":
        """With so many pieces of this label, each a word, before it; none for less than one."""
        count = max(0, count)
        first = (label,) * count
        indices = (*range(count), *(count + index for index in self.words.indices))
        return Side(first + self.pieces, Words(first + self.words.labels, indices))


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The weights of one reading, a map a layer and head, those of the first layer first.

    weights: (map, T, S), finite and non-negative.
    source, target: what is read and what reads, S and T pieces.
    names: one a map.
    layers: how many maps each layer has.

    Raises ValueError where these do not fit together, and as `Alignment` does.
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
        """All of them, amounts in shares of the mean. Names count as `--map` does: `layer 0, head 0`. Labels without
        words are a word each."""
        layers, heads = lookups.weights.shape[:2]
        names = [f"layer {layer}, head {head}" for layer in range(layers) for head in range(heads)]
        every = lookups.weights.astype(np.float64)
        every = in_shares_of_mean(every) if lookups.amounts else every
        weights = rearrange(every, "layer head target source -> (layer head) target source")
        source, target = Side.of(lookups.source, lookups.source_words), Side.of(lookups.target, lookups.target_words)
        return cls(weights, source, target, tuple(names), (heads,) * layers)

    @property
    def itself(self) -> bool:
        """Whether a text read itself."""
        return self.source.pieces == self.target.pieces

    def by_layer(self) -> list[Float[np.ndarray, "_head target source"]]:
        """The maps of each layer."""
        return np.split(self.weights, np.cumsum(self.layers)[:-1])

    def mean(self, numbers: Sequence[int] | None = None) -> Alignment:
        """That of all maps, or of those of these numbers. Raises InputError for one that is not there."""
        return Alignment(average_of(self.weights, numbers), self.source.pieces, self.target.pieces)

    def only(self, numbers: Sequence[int]) -> "HeadMaps":
        """The maps of these numbers, as one layer. Raises InputError for one that is not there."""
        weights = chosen(self.weights, numbers)
        return self.other({self.names[number]: each for number, each in zip(numbers, weights, strict=True)})

    def other(self, maps: Mapping[str, Float[np.ndarray, "target source"]]) -> "HeadMaps":
        """Other maps of the same pieces, by their names, as one layer. Raises ValueError for none."""
        return replace(self, weights=np.stack([*maps.values()]), names=tuple(maps), layers=(len(maps),))

    def between_words(self) -> "HeadMaps":
        """The same maps between words: sums over what is read, means over what reads (`join_words`)."""
        source, target = self.source.words, self.target.words
        weights = join_words(self.weights, source.indices, target.indices)
        return replace(self, weights=weights, source=Side.of(source.labels), target=Side.of(target.labels))

    def part(self, source: slice, target: slice) -> "HeadMaps":
        """Of these pieces alone, each of which is then a word. What else was read is left out."""
        weights = self.weights[:, target, source]
        return replace(
            self,
            weights=weights,
            source=Side.of(self.source.pieces[source]),
            target=Side.of(self.target.pieces[target]),
        )
