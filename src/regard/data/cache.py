"""Encoded sets: tables of ragged columns, built once and memory-mapped by later starts.

A table is in memory, or in a folder of shards of `ROWS` rows, each a folder of arrays.
`complete.json` is written last, so a table is complete or its build goes on: a killed
build loses at most the shard that it was writing.
"""

import hashlib
import json
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Int
from pydantic import TypeAdapter
from tqdm import tqdm

from regard.config.file_kinds import compression
from regard.data.batches import LazySequence, RowIndices
from regard.data.files import is_remote, list_files, size_of_file, stat_stamp
from regard.storage import atomic
from regard.storage.atomic import NAME as LOCK
from regard.storage.atomic import replacing, wait_for_lock, write
from regard.storage.cache_folder import BEGUN, SOURCE, name_cache_option, sets

log = logging.getLogger("regard")

VALUES, OFFSETS, COUNTS = ".values.npy", ".offsets.npy", "counts.json"
"""The endings of the two files of a column, and the file of the numbers."""
ROWS = 1 << 16
"""The rows of a shard; the last one may have fewer."""
VERSION = 3
COMPLETE, CHECKSUM = "complete.json", ".crc"
"""The file of a complete table, and the ending of a shard's checksum until then."""
CHECKSUM_LIMIT = 1 << 30
"""Bytes of a table that is compared with its checksums whenever it is opened."""
LOG_SECONDS = 10.0
"""Seconds between two lines of progress without a terminal."""


@dataclass(frozen=True, eq=False)
class Ragged:
    """A column whose row i is `values[offsets[i] : offsets[i + 1]]`.

    The values are ids, or the bytes of texts (uint8).
    """

    values: np.ndarray
    offsets: Int[np.ndarray, " row_and_one"]

    @classmethod
    def of_ids(
        cls, rows: Sequence[Sequence[int]], kind: type[np.generic] = np.int32
    ) -> "Ragged":
        """Return rows of integers as a column."""
        offsets = _sum_lengths(rows)
        count = int(offsets[-1])
        ids = chain.from_iterable(rows)
        values = np.fromiter(ids, dtype=kind, count=count)
        return cls(values, offsets)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Ragged":
        """Return texts as UTF-8, lone surrogates as three bytes each."""
        rows = [text.encode(errors="surrogatepass") for text in texts]
        values = np.frombuffer(b"".join(rows), dtype=np.uint8)
        return cls(values, _sum_lengths(rows))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def text(self, row: int) -> str:
        """Return the text of a row of bytes."""
        return self[row].tobytes().decode(errors="surrogatepass")

    @property
    def lengths(self) -> RowIndices:
        """The length of each row."""
        return np.diff(self.offsets)


def _sum_lengths(rows: Sequence[Sequence[Any]]) -> Int[np.ndarray, " row_and_one"]:
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive rows of a table as columns by name, and numbers about them."""

    columns: Mapping[str, Ragged]
    counts: Mapping[str, int]

    def __len__(self) -> int:
        columns = iter(self.columns.values())
        return len(next(columns))

    def write(self, path: Path) -> None:
        """Write a folder with two arrays a column. Raises RunError as `replacing`."""
        with replacing(path) as folder:
            folder.mkdir()
            for name, column in self.columns.items():
                np.save(folder / f"{name}{VALUES}", column.values)
                np.save(folder / f"{name}{OFFSETS}", column.offsets)
            content = json.dumps(dict(self.counts))
            (folder / COUNTS).write_text(content)
            for file in folder.iterdir():
                atomic.sync(file)

    @classmethod
    def read(cls, path: Path) -> "Shard":
        """Map a folder that `write` wrote. Raises OSError and ValueError for others."""
        columns = {}
        for file in path.glob(f"*{OFFSETS}"):
            name = file.name.removesuffix(OFFSETS)
            values = np.load(path / f"{name}{VALUES}", mmap_mode="r")
            offsets = np.load(file, mmap_mode="r")
            columns[name] = Ragged(values.view(np.ndarray), offsets.view(np.ndarray))
        content = (path / COUNTS).read_text()
        return cls(columns, json.loads(content))


def begin_progress(
    work: str, rows: int, done: int, unit: str = "rows", *, silent: bool = False
) -> tqdm:
    """Return a bar of the rows that are done, without a terminal one in `LOG_SECONDS`.

    Args:
        work: The work, a verb first.
        rows: All rows; 0 if nobody knows how many.
        done: The rows that were done before.
        unit: What is counted, in the plural.
        silent: Whether nothing is shown.
    """
    seconds = 0.1 if sys.stderr.isatty() else LOG_SECONDS
    return tqdm(
        total=rows or None,
        initial=done,
        unit=f" {unit}",
        desc=work,
        disable=silent,
        leave=False,
        mininterval=seconds,
        delay=seconds,
    )


Make = Callable[[int], Iterator[Shard]]
"""From a number of shards that exist to the shards behind them."""


@dataclass(frozen=True, eq=False)
class ShardTable:
    """Shards of equally many rows.

    Attributes:
        shards: The shards, of which the last one may have fewer rows.
        folder: That of a table on disk, which a pickled table is read from again.
    """

    shards: Sequence[Shard]
    folder: Path | None = None

    def __len__(self) -> int:
        if not self.shards:
            return 0
        *full, last = self.shards
        return ROWS * len(full) + len(last)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.folder is None:
            return ShardTable, (self.shards,)
        return open_table, (self.folder,)

    def at(self, row: int) -> tuple[Shard, int]:
        """Return the shard of a row, and its index there."""
        number, index = divmod(row, ROWS)
        return self.shards[number], index

    def text(self, column: str, row: int) -> str:
        """Return the text of a row in a column."""
        shard, index = self.at(row)
        return shard.columns[column].text(index)

    def values(self, column: str) -> np.ndarray:
        """Return the values of all rows of a column, one after the other."""
        parts = [shard.columns[column].values for shard in self.shards]
        if not parts:
            return np.empty(0, dtype=np.int32)
        return np.concatenate(parts)

    def count(self, name: str) -> int:
        """Return the sum of a number over the shards."""
        return sum(shard.counts.get(name, 0) for shard in self.shards)

    def lengths(self, *names: str) -> Int[np.ndarray, "row column"]:
        """Return the lengths of the rows of columns."""
        lengths = np.empty((len(self), len(names)), np.int32)
        first = 0
        # One shard at a time: a billion rows would need their lengths four times over.
        for shard in self.shards:
            last = first + len(shard)
            for side, name in enumerate(names):
                column = shard.columns[name]
                lengths[first:last, side] = column.lengths
            first = last
        return lengths


def build_or_open(
    folder: Path, stamp: Mapping[str, Any], make: Make, title: str, rows: int = 0
) -> ShardTable:
    """Open the table in a folder, or build it, while other processes wait for it.

    Args:
        stamp: What tells the sources of the table apart.
        make: Makes the shards.
        title: What the table is called in messages.
        rows: How many rows there will be; 0 if nobody knows.

    Raises:
        RunError: The disk is full or read-only.
        Exception: `make` raises it.
    """
    with name_cache_option():
        if not _find_fault(folder, stamp):
            return open_table(folder)
        with atomic.explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with wait_for_lock(folder, title):
            if fault := _find_fault(folder, stamp):
                if (folder / COMPLETE).exists():
                    log.warning("%s: %s; it is built again", title, fault)
                _build(
                    folder,
                    stamp,
                    make,
                    title,
                    rows,
                )
        return open_table(folder)


def open_table(folder: Path) -> ShardTable:
    """Open the complete table in a folder, unchecked.

    Raises:
        OSError: There is none.
        ValueError: It is damaged.
    """
    about = json.loads((folder / COMPLETE).read_text())
    count = len(about["shards"])
    shards = [Shard.read(path) for path in _paths(folder, count)]
    return ShardTable(shards, folder)


def _find_fault(folder: Path, stamp: Mapping[str, Any]) -> str:
    """Return why the table in a folder cannot be used; empty if it can."""
    try:
        about = json.loads((folder / COMPLETE).read_text())
        if about["version"] != VERSION:
            return f"the encoded set in {folder} is of version {about['version']}"
        if about["stamp"] != stamp:
            return "its sources changed since it was encoded"
        shards = about["shards"]
        is_small = sum(size for size, _ in shards) <= CHECKSUM_LIMIT
        for number, (size, checksum) in enumerate(shards):
            path = _path(folder, number)
            is_damaged = _size(path) != size
            if is_small and not is_damaged:
                is_damaged = _checksum(path) != checksum
            if is_damaged:
                return f"{path} is damaged"
        open_table(folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())[:100]
        return f"the encoded set in {folder} is damaged ({reason})"
    return ""


def _build(
    folder: Path, stamp: Mapping[str, Any], make: Make, title: str, rows: int
) -> None:
    begun = {"version": VERSION, "stamp": dict(stamp)}
    content = json.dumps(begun).encode()
    path = folder / BEGUN
    done = 0
    # An interrupted build of the same sources goes on behind its full shards.
    is_begun = path.is_file() and path.read_bytes() == content
    if is_begun and not (folder / COMPLETE).exists():
        done = _count_full_shards(folder)
    retained = {LOCK}
    retained |= {path.name for path in _paths(folder, done)}
    for path in folder.iterdir():
        if path.stem not in retained:
            atomic.discard(path)
    atomic.write(folder / BEGUN, content)
    with begin_progress(f"encoding {title}", rows, done * ROWS) as progress:
        for shard in make(done):
            path = _path(folder, done)
            shard.write(path)
            checksum = str(_checksum(path))
            atomic.write(path.with_suffix(CHECKSUM), checksum.encode())
            done += 1
            progress.update(len(shard))
    shards = [[_size(path), _checksum(path)] for path in _paths(folder, done)]
    content = json.dumps(begun | {"shards": shards}).encode()
    atomic.write(folder / COMPLETE, content)


def _count_full_shards(folder: Path) -> int:
    """Count the shards before the first one that is missing, damaged or not full."""
    number = 0
    try:
        while len(Shard.read(path := _path(folder, number))) == ROWS:
            checksum = path.with_suffix(CHECKSUM).read_text()
            if checksum != str(_checksum(path)):
                break
            number += 1
    except (OSError, ValueError, EOFError) as error:
        log.debug("%s goes on at shard %d: %s", folder, number, error)
    return number


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}"


def _paths(folder: Path, count: int) -> list[Path]:
    return [_path(folder, number) for number in range(count)]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _checksum(folder: Path) -> int:
    checksum = 0
    for path in sorted(folder.iterdir()):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum


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
Rows = range | list[int] | RowIndices
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
    rows: RowIndices | None = None
    name: str = "all"
    type: Any = None
    convert: Callable[[Any], E] | None = None

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def item(self, index: int) -> E:
        """Return the example at an index."""
        if self.rows is not None:
            index = int(self.rows[index])
        text = self.table.text(EXAMPLE, index)
        adapter = _adapter(self.type)
        value = adapter.validate_python(json.loads(text))
        if self.convert is None:
            return value
        return self.convert(value)

    def select(self: S, indices: Rows, name: str) -> S:
        """Return the examples at these indices; `name` is added to that of the set."""
        rows = np.asarray(indices, dtype=np.int64)
        if self.rows is not None:
            rows = self.rows[rows]
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
    total = 0
    for file in files:
        size = size_of_file(file)
        if compression(file):
            size *= EXPANSION
        total += size
    return total >= SMALL


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
        examples = islice(read(), done * ROWS, None)
        while batch := list(islice(examples, ROWS)):
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
        for first in range(done * ROWS, len(examples), ROWS):
            rows = examples[first : first + ROWS]
            yield encode(rows)

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
    content = json.dumps({"source": source, "value": value})
    with name_cache_option():
        write(path, content.encode())
    return value


def _source_digest(examples: CachedSet[Any]) -> str:
    """Return a digest of what the sources of a set were when it was encoded."""
    path = examples.folder / SOURCE / BEGUN
    return _digest(path.read_text(encoding="utf-8"))


def _digest(*parts: str) -> str:
    content = "\0".join(parts).encode(errors="surrogatepass")
    digest = hashlib.sha256(content)
    return digest.hexdigest()[:16]


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
        owner = self.owners[index]
        first = int(np.searchsorted(self.owners, owner))
        pieces = json.loads(self.table.text(PIECES, int(owner)))
        parts = pieces[index - first]
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
        columns = {PIECES: Ragged.of_texts(texts), LENGTHS: Ragged.of_ids(lengths)}
        return Shard(columns, {})

    table = cache_table(examples, name, encode)
    counts = table.lengths(LENGTHS)[:, 0]
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Chunks(table, owners, table.values(LENGTHS), make)
