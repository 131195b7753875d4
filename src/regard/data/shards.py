"""Tables of ragged columns in shards, in memory or memory-mapped from a folder on disk.

A table on disk is a folder of shards of `ROWS` rows, each a folder of arrays. `complete.json` is
written last, so a table is complete or its build goes on: a killed build loses at most
the shard that it was writing.
"""

import json
import logging
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from regard.storage import atomic
from regard.storage.atomic import NAME as LOCK
from regard.storage.atomic import replacing, wait_for_lock
from regard.storage.cache_folder import BEGUN, name_cache_option

log = logging.getLogger("regard")

VALUES, OFFSETS, COUNTS = ".values.npy", ".offsets.npy", "counts.json"
"""The endings of the two files of a column, and the file of the numbers."""
ROWS = 1 << 16
"""The rows of a shard; the last one may have fewer."""
VERSION = 3
COMPLETE = "complete.json"
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
        ids = chain.from_iterable(rows)
        return cls(np.fromiter(ids, dtype=kind, count=int(offsets[-1])), offsets)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Ragged":
        """Return texts as UTF-8, lone surrogates as three bytes each."""
        rows = [text.encode(errors="surrogatepass") for text in texts]
        return cls(np.frombuffer(b"".join(rows), dtype=np.uint8), _sum_lengths(rows))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def text(self, row: int) -> str:
        """Return the text of a row of bytes."""
        return self[row].tobytes().decode(errors="surrogatepass")

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
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
        return len(next(iter(self.columns.values())))

    def write(self, path: Path) -> None:
        """Write a folder with two arrays a column. Raises RunError as `replacing`."""
        with replacing(path) as folder:
            folder.mkdir()
            for name, column in self.columns.items():
                np.save(folder / f"{name}{VALUES}", column.values)
                np.save(folder / f"{name}{OFFSETS}", column.offsets)
            (folder / COUNTS).write_text(json.dumps(dict(self.counts)))
            for file in folder.iterdir():
                atomic.sync(file)

    @classmethod
    def read(cls, path: Path) -> "Shard":
        """Map a folder that `write` wrote. Raises OSError and ValueError for others."""
        columns = {}
        for file in path.glob(f"*{OFFSETS}"):
            name = file.name.removesuffix(OFFSETS)
            arrays = (
                np.load(path / f"{name}{ending}", mmap_mode="r").view(np.ndarray)
                for ending in (VALUES, OFFSETS)
            )
            columns[name] = Ragged(*arrays)
        return cls(columns, json.loads((path / COUNTS).read_text()))


def begin_progress(
    work: str, rows: int, done: int, *, silent: bool = False
) -> "tqdm[Any]":
    """Return a bar of the rows that are done, without a terminal one in `LOG_SECONDS`.

    Args:
        work: The work, a verb first.
        rows: All rows; 0 if nobody knows how many.
        done: The rows that were done before.
        silent: Whether nothing is shown.
    """
    seconds = 0.1 if sys.stderr.isatty() else LOG_SECONDS
    return tqdm(
        total=rows or None,
        initial=done,
        unit=" rows",
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
        return ROWS * (len(self.shards) - 1) + len(self.shards[-1])

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
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def count(self, name: str) -> int:
        """Return the sum of a number over the shards."""
        return sum(shard.counts.get(name, 0) for shard in self.shards)

    def lengths(self, *names: str) -> Int[np.ndarray, "row column"]:
        """Return the lengths of the rows of columns."""
        lengths = np.empty((len(self), len(names)), np.int32)
        first = 0
        # One shard at a time: a billion rows would need their lengths four times over.
        for shard in self.shards:
            for side, name in enumerate(names):
                rows = slice(first, first + len(shard))
                lengths[rows, side] = shard.columns[name].lengths
            first += len(shard)
        return lengths


def build_or_open(
    folder: Path, stamp: Mapping[str, Any], make: Make, title: str, rows: int = 0
) -> ShardTable:
    """Open the table in a folder, or build it, while other processes wait for it.

    Args:
        folder: The folder.
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
    count = len(json.loads((folder / COMPLETE).read_text())["shards"])
    shards = [Shard.read(_path(folder, number)) for number in range(count)]
    return ShardTable(shards, folder)


def _find_fault(folder: Path, stamp: Mapping[str, Any]) -> str:
    """Return why the table in a folder cannot be used; empty if it can."""
    try:
        about = json.loads((folder / COMPLETE).read_text())
        if about["version"] != VERSION:
            return f"the encoded set in {folder} is of version {about['version']}"
        if about["stamp"] != stamp:
            return "its sources changed since it was encoded"
        is_small = sum(size for size, _ in about["shards"]) <= CHECKSUM_LIMIT
        for number, (size, checksum) in enumerate(about["shards"]):
            path = _path(folder, number)
            if _size(path) != size or (is_small and _checksum(path) != checksum):
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
    if path.is_file() and path.read_bytes() == content:
        done = 0 if (folder / COMPLETE).exists() else _count_full_shards(folder)
    retained = {LOCK, *(_path(folder, number).name for number in range(done))}
    for path in folder.iterdir():
        if path.name not in retained:
            atomic.discard(path)
    atomic.write(folder / BEGUN, content)
    with begin_progress(f"encoding {title}", rows, done * ROWS) as progress:
        for shard in make(done):
            shard.write(_path(folder, done))
            done += 1
            progress.update(len(shard))
    paths = [_path(folder, number) for number in range(done)]
    sizes = [[_size(path), _checksum(path)] for path in paths]
    atomic.write(folder / COMPLETE, json.dumps(begun | {"shards": sizes}).encode())


def _count_full_shards(folder: Path) -> int:
    """Count the shards before the first one that is missing, damaged or not full."""
    number = 0
    try:
        while len(Shard.read(_path(folder, number))) == ROWS:
            number += 1
    except (OSError, ValueError, EOFError) as error:
        log.debug("%s goes on at shard %d: %s", folder, number, error)
    return number


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _checksum(folder: Path) -> int:
    checksum = 0
    for path in sorted(folder.iterdir()):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return checksum
