"""Encoded sets on disk: built once, memory-mapped by every later start."""

import hashlib
import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
from jaxtyping import Int
from pydantic import TypeAdapter

from regard.config.file_kinds import compression
from regard.data import shards
from regard.data.files import is_remote, list_files, size_of_file, stat_stamp
from regard.data.shards import (
    Ragged,
    Shard,
    ShardTable,
    build_in_memory,
    build_or_open,
    map_in_processes,
)
from regard.data.tables import has_texts
from regard.extras import how_to_install
from regard.storage.atomic import write
from regard.storage.cache_folder import BEGUN, SOURCE, named_remedy, sets

E = TypeVar("E")
V = TypeVar("V")
Rows = range | list[int] | Int[np.ndarray, " row"]
"""Numbers of rows."""


class LazySequence(Sequence[E], ABC, Generic[E]):
    """A sequence that computes each item by `item`; a slice is a list."""

    @abstractmethod
    def item(self, index: int) -> E:
        """The item at an index of 0 or more that is below the length."""

    def __iter__(self) -> Iterator[E]:
        return map(self.item, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> E: ...
    @overload
    def __getitem__(self, index: slice) -> list[E]: ...
    def __getitem__(self, index: int | slice) -> E | list[E]:
        if isinstance(index, slice):
            return [self.item(item) for item in range(*index.indices(len(self)))]
        return self.item(range(len(self))[index])


log = logging.getLogger("regard")


EXAMPLE, SPLIT = "example", "split"
"""The columns of an example in JSON, and of the name of its set."""
SMALL = 1 << 23
"""Bytes of source below which a set stays in memory."""
EXPANSION = 3
"""How many times as long as a compressed file its content is taken to be."""


@dataclass(frozen=True, eq=False)
class CachedSet(LazySequence[E], Generic[E]):
    """Examples that were read once and lie in a table on disk.

    Attributes:
        table: The table, with an example a row.
        folder: The set's folder, where what is computed from it is cached too.
        paths: The files that the examples were read from.
        rows: The rows of the examples; None for all.
        name: What tells the subsets of a set apart.
        type: The type that is stored: a dataclass or another type that JSON can hold.
        convert: Makes an example of a stored value; None where they are the same.
    """

    table: ShardTable
    folder: Path
    paths: Sequence[str]
    rows: Int[np.ndarray, " row"] | None = None
    name: str = "all"
    type: Any = None
    convert: Callable[[Any], E] | None = None

    def example(self, shard: Shard, row: int) -> E:
        """Return the example in a row of a shard."""
        stored = json.loads(shard.columns[EXAMPLE].text(row))
        value = _adapter(self.type).validate_python(stored)
        return value if self.convert is None else self.convert(value)

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def item(self, index: int) -> E:
        row = index if self.rows is None else int(self.rows[index])
        return self.example(*self.table.at(row))

    def values(self, name: str) -> Iterator[Any]:
        """Yield an attribute of each example."""
        return (getattr(example, name) for example in self)

    def part(self: "S", rows: Int[np.ndarray, " row"], name: str) -> "S":
        """Return the examples in these rows of the table."""
        return replace(self, rows=rows, name=name)

    def select(self: "S", indices: Rows, name: str) -> "S":
        """Return the examples at these indices."""
        chosen = np.asarray(indices, dtype=np.int64)
        rows = chosen if self.rows is None else self.rows[chosen]
        return replace(self, rows=rows, name=f"{self.name} {name}")

    def map(self, convert: Callable[[Any], V], name: str) -> "CachedSet[V]":
        """Return the set whose examples `convert` makes of the stored ones."""
        result: Any = replace(self, convert=convert, name=f"{self.name} {name}")
        return result

    def splits(self) -> list[str]:
        """Return the value that each example has in the column of its set."""
        rows = range(len(self.table)) if self.rows is None else self.rows.tolist()
        places = map(self.table.at, rows)
        return [shard.columns[SPLIT].text(row) for shard, row in places]


S = TypeVar("S", bound=CachedSet[Any])


@dataclass(frozen=True, eq=False)
class Zipped(Sequence[tuple[E, V]], Generic[E, V]):
    """Examples with a value each, put together when they are read."""

    examples: Sequence[E]
    values: Sequence[V]

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, index: int) -> tuple[E, V]: ...
    @overload
    def __getitem__(self, index: slice) -> "Zipped[E, V]": ...
    def __getitem__(self, index: int | slice) -> "tuple[E, V] | Zipped[E, V]":
        if isinstance(index, slice):
            return Zipped(self.examples[index], self.values[index])
        return self.examples[index], self.values[index]


@dataclass(frozen=True, eq=False)
class LazyMap(LazySequence[V], Generic[V]):
    """A value of each example, computed when it is read."""

    examples: Sequence[Any]
    compute: Callable[[Any], V]

    def __len__(self) -> int:
        return len(self.examples)

    def item(self, index: int) -> V:
        """The value of the example at an index."""
        return self.compute(self.examples[index])


def is_large(paths: Iterable[str]) -> bool:
    """Whether files are stored: regular files of `SMALL` bytes or more together, where pyarrow is installed. Texts in
    folders of their classes are not."""
    paths = list(paths)
    if any(map(has_texts, paths)):
        return False
    files = [file for path in paths for file in list_files(path)]
    if not all(is_remote(file) or os.path.isfile(file) for file in files):
        return False  # the reader says what is wrong, or reads a stream
    if (
        sum(
            size_of_file(file) * (EXPANSION if compression(file) else 1)
            for file in files
        )
        < SMALL
    ):
        return False
    if find_spec("pyarrow") is not None:
        return True
    log.info(
        "%s: stays in memory, and is encoded at every start; to keep it encoded on disk: %s",
        ", ".join(map(str, files)), how_to_install("pyarrow"),
    )  # fmt: skip
    return False


def cache_examples(
    type: Any,
    paths: Sequence[str],
    settings: str,
    read: Callable[[], Iterator[tuple[str, Any]]],
    count: Callable[[], int] = lambda: 0,
) -> CachedSet[Any]:
    """Return the examples of files from the cache, after reading them once.

    Args:
        type: The type of an example.
        paths: The files, whose changes are noticed by size and time.
        settings: All settings that decide what `read` makes of the files.
        read: Yields each example after the name of its set, or an empty text.
        count: Returns about how many examples there are, 0 if unknown.

    Raises:
        InputError: `read` raises it for a bad file.
        RunError: The disk is full or read-only.
    """
    names = [path if is_remote(path) else str(Path(path).resolve()) for path in paths]
    folder = sets() / _digest(repr(type), *names, settings)
    sources = [stat_stamp(file) for path in paths for file in list_files(path)]
    stamps = {"sources": sources, "kind": repr(type)}

    def make(done: int) -> Iterator[Shard]:
        examples = islice(read(), done * shards.ROWS, None)
        while batch := list(islice(examples, shards.ROWS)):
            yield _encode(type, batch)

    table = build_or_open(folder / SOURCE, stamps, make, count, ", ".join(paths))
    return CachedSet(table, folder, paths, type=type)


@cache
def _adapter(type: Any) -> Any:
    return TypeAdapter(type)


def _encode(type: Any, batch: Sequence[tuple[str, Any]]) -> Shard:
    """Encode examples, each after the name of its set, as a shard."""
    dump = _adapter(type).dump_python
    values = (dump(example) for _, example in batch)
    texts = (json.dumps(value, ensure_ascii=False, default=list) for value in values)
    columns = {EXAMPLE: Ragged.of_texts(texts)}
    if any(split for split, _ in batch):
        columns[SPLIT] = Ragged.of_texts(split for split, _ in batch)
    return Shard(columns, {})


def cache_table(
    examples: Sequence[E], name: str, encode: Callable[[Sequence[E]], Shard]
) -> ShardTable:
    """The table of what `encode` computes from consecutive examples, in their order; of a set on disk it is computed
    once for each `name`, which says all that it depends on."""

    def make(done: int) -> Iterator[Shard]:
        firsts = range(done * shards.ROWS, len(examples), shards.ROWS)
        parts = map_in_processes if isinstance(examples, CachedSet) else map
        yield from parts(
            lambda first: encode(examples[first : first + shards.ROWS]), firsts
        )

    if not isinstance(examples, CachedSet):
        return build_in_memory(make)
    folder = examples.folder / _digest(examples.name, name)
    about, what = (
        {"source": _source_digest(examples)},
        f"tokens of {', '.join(examples.paths)}",
    )
    return build_or_open(folder, about, make, lambda: len(examples), what)


def cache_value(examples: Sequence[Any], name: str, compute: Callable[[], V]) -> V:
    """A value for JSON that is computed from examples; of a set on disk once for each `name`."""
    if not isinstance(examples, CachedSet):
        return compute()
    path, source = (
        examples.folder / f"{_digest(examples.name, name)}.json",
        _source_digest(examples),
    )
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["source"] == source:
            return known["value"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("%s cannot be read (%s); it is computed again", path, error)
    value = compute()
    with named_remedy():
        write(path, json.dumps({"source": source, "value": value}).encode())
    return value


def _source_digest(examples: CachedSet[Any]) -> str:
    """What the sources of a set were when it was encoded."""
    return _digest((examples.folder / SOURCE / BEGUN).read_text(encoding="utf-8"))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[
        :16
    ]


P = TypeVar("P")


@dataclass(frozen=True)
class JsonCodec(Generic[P]):
    """Pieces as values of JSON, to them and from them."""

    to_json: Callable[[P], Any]
    of_json: Callable[[Any], P]


@dataclass(frozen=True, eq=False)
class Chunks(Generic[P]):
    """The pieces of all examples, one after the other; the index of each one's example; and each one's length."""

    items: Sequence[P]
    owners: Int[np.ndarray, " piece"]
    lengths: Int[np.ndarray, " piece"]

    @property
    def sides(self) -> Int[np.ndarray, "piece 2"]:
        """The length of each piece, twice: as a source and as a target."""
        return np.stack([self.lengths, self.lengths], 1)


def split_into_chunks(
    examples: Sequence[E],
    name: str,
    cut: Callable[[E], Sequence[P]],
    length: Callable[[P], int],
    codec: JsonCodec[P],
) -> Chunks[P]:
    """The pieces that `cut` makes of examples; of those on disk they are computed once for each `name`, which says all
    that they depend on, and read when they are needed. Raises whatever `cut` raises."""
    if not isinstance(examples, CachedSet):
        several = [cut(example) for example in examples]
        items = [item for pieces in several for item in pieces]
        counts, lengths = (
            [len(pieces) for pieces in several],
            np.array([length(item) for item in items], dtype=np.int32),
        )
        return Chunks(items, np.repeat(np.arange(len(several)), counts), lengths)

    def encode(some: Sequence[E]) -> Shard:
        several = [cut(item) for item in some]
        texts = (
            json.dumps([codec.to_json(piece) for piece in pieces]) for pieces in several
        )
        lengths = Ragged.of_ids(
            [[length(piece) for piece in pieces] for pieces in several]
        )
        return Shard({"pieces": Ragged.of_texts(texts), "lengths": lengths}, {})

    table = cache_table(examples, name, encode)
    counts = table.lengths("lengths")[:, 0]
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    firsts = np.cumsum(counts) - counts
    lengths = np.concatenate(
        [shard.columns["lengths"].values for shard in table.shards]
    )
    return Chunks(CachedChunks(table, owners, firsts, codec.of_json), owners, lengths)


@dataclass(frozen=True, eq=False)
class CachedChunks(LazySequence[P], Generic[P]):
    """Pieces of a table, by the row of each one and the first piece of each row."""

    table: ShardTable
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
