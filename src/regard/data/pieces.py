"""Examples that are cut into several pieces each, such as the windows of a long text or the captions of an image."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Int

from regard.data.columns import Ragged, Shard
from regard.data.lazy_sequence import LazySequence
from regard.data.stored import Stored, derived
from regard.data.table import Table

E = TypeVar("E")
P = TypeVar("P")


@dataclass(frozen=True)
class JsonCodec(Generic[P]):
    """Pieces as values of JSON, to them and from them."""

    to_json: Callable[[P], Any]
    of_json: Callable[[Any], P]


@dataclass(frozen=True, eq=False)
class Pieces(Generic[P]):
    """The pieces of all examples, one after the other; the index of each one's example; and each one's length."""

    items: Sequence[P]
    owners: Int[np.ndarray, " piece"]
    lengths: Int[np.ndarray, " piece"]

    @property
    def sides(self) -> Int[np.ndarray, "piece 2"]:
        """The length of each piece, twice: as a source and as a target."""
        return np.stack([self.lengths, self.lengths], 1)


def cut_up(
    examples: Sequence[E],
    name: str,
    cut: Callable[[E], Sequence[P]],
    length: Callable[[P], int],
    codec: JsonCodec[P],
) -> Pieces[P]:
    """The pieces that `cut` makes of examples; of those on disk they are computed once for each `name`, which says all
    that they depend on, and read when they are needed. Raises whatever `cut` raises."""
    if not isinstance(examples, Stored):
        several = [cut(each) for each in examples]
        items = [each for some in several for each in some]
        counts, lengths = (
            [len(some) for some in several],
            np.array([length(each) for each in items], dtype=np.int32),
        )
        return Pieces(items, np.repeat(np.arange(len(several)), counts), lengths)

    def encode(some: Sequence[E]) -> Shard:
        several = [cut(each) for each in some]
        texts = (
            json.dumps([codec.to_json(each) for each in pieces]) for pieces in several
        )
        lengths = Ragged.of_ids(
            [[length(each) for each in pieces] for pieces in several]
        )
        return Shard({"pieces": Ragged.of_texts(texts), "lengths": lengths}, {})

    table = derived(examples, name, encode)
    counts = table.lengths("lengths")[:, 0]
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    firsts = np.cumsum(counts) - counts
    lengths = np.concatenate(
        [shard.columns["lengths"].values for shard in table.shards]
    )
    return Pieces(OnDisk(table, owners, firsts, codec.of_json), owners, lengths)


@dataclass(frozen=True, eq=False)
class OnDisk(LazySequence[P], Generic[P]):
    """Pieces of a table, by the row of each one and the first piece of each row."""

    table: Table
    owners: Int[np.ndarray, " piece"]
    firsts: Int[np.ndarray, " example"]
    of_json: Callable[[Any], P]

    def __len__(self) -> int:
        return len(self.owners)

    def item(self, index: int) -> P:
        """The piece at an index."""
        row = int(self.owners[index])
        shard, place = self.table.at(row)
        return self.of_json(
            json.loads(shard.columns["pieces"].text(place))[
                index - int(self.firsts[row])
            ]
        )
