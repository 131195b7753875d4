"""Encoded sets on disk: built once, memory-mapped by every later start."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Int
from pydantic import TypeAdapter

from regard.config.file_kinds import compression
from regard.data import shards
from regard.data.files import is_remote, list_files, size_of_file, stat_stamp
from regard.data.order import LazySequence
from regard.data.shards import Ragged, Shard, ShardTable, build_or_open
from regard.storage.atomic import write
from regard.storage.cache_folder import BEGUN, SOURCE, name_cache_option, sets

log = logging.getLogger("regard")

EXAMPLE = "example"
"""The column of an example in JSON."""
PIECES, LENGTHS = "pieces", "lengths"
"""The columns of the pieces of an example in JSON, and of their lengths."""
SMALL = 1 << 23
"""Bytes of source below which a set stays in memory."""
EXPANSION = 3
"""How many times as long as a compressed file its content is taken to be."""
E = TypeVar("E")
V = TypeVar("V")
P = TypeVar("P")
S = TypeVar("S", bound="CachedSet[Any]")
Rows = range | list[int] | Int[np.ndarray, " row"]
"""Numbers of rows."""


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

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def item(self, index: int) -> E:
        """Return the example at an index."""
        row = index if self.rows is None else int(self.rows[index])
        stored = json.loads(self.table.text(EXAMPLE, row))
        value = _adapter(self.type).validate_python(stored)
        return value if self.convert is None else self.convert(value)

    def select(self: S, indices: Rows, name: str) -> S:
        """Return the examples at these indices; `name` is added to that of the set."""
        chosen = np.asarray(indices, dtype=np.int64)
        rows = chosen if self.rows is None else self.rows[chosen]
        return replace(self, rows=rows, name=f"{self.name} {name}")

    def map(self, convert: Callable[[Any], V], name: str) -> "CachedSet[V]":
        """Return the set whose examples `convert` makes of the stored ones."""
        result: Any = replace(self, convert=convert, name=f"{self.name} {name}")
        return result


def is_large(paths: Iterable[str]) -> bool:
    """Return whether files are encoded on disk.

    They are regular files of `SMALL` bytes or more together.
    """
    files = [file for path in paths for file in list_files(path)]
    if not all(is_remote(file) or os.path.isfile(file) for file in files):
        return False  # the reader says what is wrong, or reads a stream
    sizes = (
        size_of_file(file) * EXPANSION ** bool(compression(file)) for file in files
    )
    return sum(sizes) >= SMALL


def cache_examples(
    type: Any,
    paths: Sequence[str],
    settings: str,
    read: Callable[[], Iterator[Any]],
) -> CachedSet[Any]:
    """Return the examples of files from the cache, after reading them once.

    Args:
        type: The type of an example.
        paths: The files, whose changes are noticed by size and time.
        settings: All settings that decide what `read` makes of the files.
        read: Yields the examples.

    Raises:
        InputError: `read` raises it for a bad file.
        RunError: The disk is full or read-only.
    """
    names = [path if is_remote(path) else os.path.realpath(path) for path in paths]
    kind = repr(type)
    folder = sets() / _digest(kind, *names, settings)
    sources = [stat_stamp(file) for path in paths for file in list_files(path)]
    dump = _adapter(type).dump_python

    def make(done: int) -> Iterator[Shard]:
        examples = islice(read(), done * shards.ROWS, None)
        while batch := list(islice(examples, shards.ROWS)):
            texts = [
                json.dumps(dump(example), ensure_ascii=False, default=list)
                for example in batch
            ]
            yield Shard({EXAMPLE: Ragged.of_texts(texts)}, {})

    stamp = {"sources": sources, "kind": kind}
    table = build_or_open(folder / SOURCE, stamp, make, ", ".join(paths))
    return CachedSet(table, folder, paths, type=type)


@cache
def _adapter(type: Any) -> Any:
    return TypeAdapter(type)


def cache_table(
    examples: Sequence[E], name: str, encode: Callable[[Sequence[E]], Shard]
) -> ShardTable:
    """Return the table of what `encode` makes of consecutive examples, in their order.

    Args:
        examples: The examples; of those on disk the table is made once for each name.
        name: All that the table depends on, except the examples.
        encode: Encodes a part of the examples.
    """

    def make(done: int) -> Iterator[Shard]:
        for first in range(done * shards.ROWS, len(examples), shards.ROWS):
            yield encode(examples[first : first + shards.ROWS])

    if not isinstance(examples, CachedSet):
        return ShardTable(list(make(0)))
    folder = examples.folder / _digest(examples.name, name)
    stamp = {"source": _source_digest(examples)}
    title = f"tokens of {', '.join(examples.paths)}"
    return build_or_open(
        folder,
        stamp,
        make,
        title,
        len(examples),
    )


def cache_value(examples: Sequence[Any], name: str, compute: Callable[[], V]) -> V:
    """Return a value for JSON that is computed from examples.

    Of a set on disk it is computed once for each `name`.
    """
    if not isinstance(examples, CachedSet):
        return compute()
    path = examples.folder / f"{_digest(examples.name, name)}.json"
    source = _source_digest(examples)
    if path.exists():
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            if saved["source"] == source:
                return saved["value"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            log.warning("%s cannot be read (%s); it is computed again", path, error)
    value = compute()
    with name_cache_option():
        write(path, json.dumps({"source": source, "value": value}).encode())
    return value


def _source_digest(examples: CachedSet[Any]) -> str:
    """Return a digest of what the sources of a set were when it was encoded."""
    return _digest((examples.folder / SOURCE / BEGUN).read_text(encoding="utf-8"))


def _digest(*parts: str) -> str:
    content = "\0".join(parts).encode(errors="surrogatepass")
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Chunks(LazySequence[P], Generic[P]):
    """The pieces of all examples, one after the other, in the rows of a table.

    Attributes:
        table: The table, with the pieces of an example in each row.
        owners: The index of the example of each piece.
        lengths: The length of each piece.
        make: Makes a piece of its parts.
    """

    table: ShardTable
    owners: Int[np.ndarray, " piece"]
    lengths: Int[np.ndarray, " piece"]
    make: Callable[..., P]

    def __len__(self) -> int:
        return len(self.owners)

    def item(self, index: int) -> P:
        """Return the piece at an index."""
        row = int(self.owners[index])
        first = int(np.searchsorted(self.owners, self.owners[index]))
        parts = json.loads(self.table.text(PIECES, row))[index - first]
        return self.make(*parts)

    @property
    def sides(self) -> Int[np.ndarray, "piece 2"]:
        """The length of each piece, twice: as a source and as a target."""
        return np.stack([self.lengths, self.lengths], 1)


def split_into_chunks(
    examples: Sequence[E],
    name: str,
    cut: Callable[[E], Sequence[P]],
    length: Callable[[P], int],
    make: Callable[..., P],
) -> Chunks[P]:
    """Return the pieces that `cut` makes of examples.

    Args:
        examples: The examples; those on disk are cut once for each name.
        name: All that the pieces depend on, except the examples.
        cut: Cuts an example into pieces.
        length: Measures a piece.
        make: Makes a piece, which is a tuple, of its parts, as JSON has them.

    Raises:
        Exception: `cut` raises it.
    """

    def encode(part: Sequence[E]) -> Shard:
        pieces = list(map(cut, part))
        texts = [json.dumps(items) for items in pieces]
        lengths = [list(map(length, items)) for items in pieces]
        return Shard(
            {PIECES: Ragged.of_texts(texts), LENGTHS: Ragged.of_ids(lengths)}, {}
        )

    table = cache_table(examples, name, encode)
    counts = table.lengths(LENGTHS)[:, 0]
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Chunks(table, owners, table.values(LENGTHS), make)
