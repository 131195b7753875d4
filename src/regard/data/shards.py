"""Tables of ragged columns in shards, in memory or memory-mapped from a folder on disk.

A table on disk is a folder of Arrow files of `ROWS` rows each. `complete.json` is
written last, so a table is complete or its build goes on: a killed build loses at most
the shard that it was writing.
"""

import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from regard.errors import RunError
from regard.storage import atomic
from regard.storage.atomic import replacing
from regard.storage.cache_folder import BEGUN, named_remedy
from regard.storage.lock import NAME as LOCK
from regard.storage.waiting import waiting

log = logging.getLogger("regard")


COUNTS = b"regard.counts"


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i of a column is `values[offsets[i] : offsets[i + 1]]`: ids, or the bytes of a text (uint8)."""

    values: np.ndarray
    offsets: Int[np.ndarray, " row_and_one"]

    @classmethod
    def of_ids(
        cls, rows: Sequence[Sequence[int]], kind: type[np.generic] = np.int32
    ) -> "Ragged":
        """Rows of integers."""
        offsets = _offsets([len(row) for row in rows])
        return cls(
            np.fromiter(chain.from_iterable(rows), dtype=kind, count=int(offsets[-1])),
            offsets,
        )

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> "Ragged":
        """Texts as UTF-8, lone surrogates as three bytes each."""
        written = [text.encode(errors="surrogatepass") for text in texts]
        return cls(
            np.frombuffer(b"".join(written), dtype=np.uint8),
            _offsets([len(item) for item in written]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def text(self, row: int) -> str:
        """The text of a row of bytes."""
        return self[row].tobytes().decode(errors="surrogatepass")

    @property
    def lengths(self) -> Int[np.ndarray, " row"]:
        """The length of each row."""
        return np.diff(self.offsets)


def _offsets(lengths: Sequence[int]) -> Int[np.ndarray, " row_and_one"]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Shard:
    """Consecutive rows of a table as columns by name, and numbers about them."""

    columns: Mapping[str, Ragged]
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def write(self, path: Path) -> None:
        """Write an Arrow file with one record batch: binary columns of texts, lists of ids. Raises RunError as
        `replacing` does."""
        pa = _pyarrow()
        arrays = [_array(column) for column in self.columns.values()]
        fields = [
            pa.field(name, array.type)
            for name, array in zip(self.columns, arrays, strict=True)
        ]
        schema = pa.schema(
            fields, metadata={COUNTS: json.dumps(dict(self.counts)).encode()}
        )
        batch = pa.record_batch(arrays, schema=schema)
        with (
            replacing(path) as temporary,
            temporary.open("wb") as file,
            pa.ipc.new_file(file, schema) as writer,
        ):
            writer.write_batch(batch)

    @classmethod
    def read(cls, path: Path) -> "Shard":
        """Map a file that `write` wrote. Raises OSError and ValueError for anything else."""
        pa = _pyarrow()
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        metadata = batch.schema.metadata or {}
        columns = {name: _ragged(batch.column(name)) for name in batch.schema.names}
        return cls(columns, json.loads(metadata.get(COUNTS, b"{}")))


def _pyarrow() -> Any:
    """The library, which is imported where a table is on disk only."""
    return importlib.import_module("pyarrow")


def _array(column: Ragged) -> Any:
    pa = _pyarrow()
    if column.values.dtype == np.uint8:
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.values)]
        return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    return pa.LargeListArray.from_arrays(
        pa.array(column.offsets), pa.array(column.values)
    )


def _ragged(array: Any) -> Ragged:
    """Views of the buffers of a column, without a copy."""
    pa = _pyarrow()
    kind = (
        np.uint8
        if pa.types.is_large_binary(array.type)
        else array.type.value_type.to_pandas_dtype()
    )
    _, offsets, *_, values = array.buffers()
    found = (
        np.frombuffer(values, dtype=kind)
        if values is not None and values.size
        else np.empty(0, dtype=kind)
    )
    return Ragged(found, np.frombuffer(offsets, dtype=np.int64)[: len(array) + 1])


MAX_WORKERS = 8
"""The processes at once at most: each holds a part of the examples as Python objects."""


I = TypeVar("I")  # noqa: E741


R = TypeVar("R")


def count_workers() -> int:
    """The processes that compute at once: one for each core that this process may use, 1 where forking is not safe."""
    return (
        min(MAX_WORKERS, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    )


def map_in_processes(compute: Callable[[I], R], inputs: Sequence[I]) -> Iterator[R]:
    """The result of each input, in their order, the next ones being computed meanwhile.

    Raises whatever `compute` raises for the first input that fails, and RunError where its process was ended.
    """
    count = count_workers()
    if count < 2 or len(inputs) < 2:
        yield from map(compute, inputs)
        return
    rest = iter(inputs)
    running = deque(_begin(compute, item) for item in islice(rest, count))
    try:
        while running:
            succeeded, found = _receive(*running.popleft())
            if not succeeded:
                raise found
            running.extend(_begin(compute, item) for item in islice(rest, 1))
            yield found
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _begin(compute: Callable[[I], R], item: I) -> tuple[Any, Connection]:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(compute, item, sender), daemon=True)
    process.start()
    sender.close()
    return process, receiver


def _receive(process: Any, receiver: Connection) -> tuple[bool, Any]:
    with receiver:
        try:
            found = receiver.recv()
        except EOFError as error:
            process.join()
            what = f"a process that encodes a part of the data was ended (exit code {process.exitcode})"
            raise RunError(f"{what}; was the memory too small?") from error
    process.join()
    return found


def _send(compute: Callable[[I], R], item: I, sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # else the library warns of the fork
    try:
        sender.send((True, compute(item)))
    except Exception as error:
        sender.send((False, error))


EVERY = 10.0
"""Seconds between two lines."""


class RowProgress:
    """Rows done of `rows` (0: nobody knows how many), of which `done` were done before; `what` is the work, a verb
    first. A context; a `silent` one shows nothing."""

    def __init__(
        self, what: str, rows: int, done: int, *, silent: bool = False
    ) -> None:
        self.what, self.rows, self.first, self.done = what, rows, done, done
        self._began = self._last = time.monotonic()
        self._silent, terminal = silent, sys.stderr.isatty()
        hidden = silent or not terminal
        self._bar = tqdm(
            total=rows or None,
            initial=done,
            unit=" rows",
            desc=what,
            disable=hidden,
            leave=False,
        )

    def __enter__(self) -> "RowProgress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._bar.close()

    def add(self, rows: int) -> None:
        """Count rows that this process did."""
        self._count(self.done + rows)

    def elsewhere(self, done: int) -> None:
        """Count the rows that all processes did, at least so many."""
        if done > self.done:
            self.first += (
                done - self.done
            )  # they say nothing about the speed of this process
            self._count(done)

    def _count(self, done: int) -> None:
        self._bar.update(done - self.done)
        self.done = done
        now = time.monotonic()
        if (
            self._bar.disable
            and not self._silent
            and now - self._last >= EVERY
            and done > self.first
        ):
            self._last = now
            speed = (done - self.first) / (now - self._began)
            rows, left = f"{done:,}", ""
            if self.rows:
                rows, left = (
                    f"{rows} of {self.rows:,}",
                    f", {max(0, self.rows - done) / speed:.0f} s left",
                )
            log.info("%s: %s rows, %s rows/s%s", self.what, rows, f"{speed:,.0f}", left)


def show_progress(
    shards: Iterable[Shard], what: str, rows: int, done: int
) -> Iterator[Shard]:
    """The shards, with the rows that they make of `rows`, of which `done` are there already."""
    with RowProgress(f"encoding {what}", rows, done) as progress:
        for shard in shards:
            yield shard
            progress.add(len(shard))


ROWS = 1 << 16
"""The rows of a shard; the last one may have fewer."""


VERSION = 1


COMPLETE = "complete.json"


CHECKSUM_LIMIT = 1 << 30
"""A table of at most so many bytes is compared with its checksums whenever it is opened, which takes a second."""


Make = Callable[[int], Iterator[Shard]]
"""From a number of shards that exist to the shards behind them."""


@dataclass(frozen=True, eq=False)
class ShardTable:
    """Shards of equally many rows. `folder` is that of a table on disk, which a pickled table is read from again."""

    shards: Sequence[Shard]
    folder: Path | None = None

    def __len__(self) -> int:
        return (
            ROWS * (len(self.shards) - 1) + len(self.shards[-1]) if self.shards else 0
        )  # as `at` has it

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            (ShardTable, (self.shards,))
            if self.folder is None
            else (open_table, (self.folder,))
        )

    def at(self, row: int) -> tuple[Shard, int]:
        """The shard of a row, and its place there."""
        number, place = divmod(row, ROWS)
        return self.shards[number], place

    def count(self, name: str) -> int:
        """The sum of a number over the shards."""
        return sum(shard.counts.get(name, 0) for shard in self.shards)

    def lengths(self, *names: str) -> Int[np.ndarray, "row column"]:
        """The lengths of the rows of columns."""
        found, first = np.empty((len(self), len(names)), np.int32), 0
        for shard in (
            self.shards
        ):  # one at a time: a billion rows would need their lengths four times over
            for side, name in enumerate(names):
                found[first : first + len(shard), side] = shard.columns[name].lengths
            first += len(shard)
        return found


def build_in_memory(make: Make) -> ShardTable:
    """A table in memory."""
    return ShardTable(list(make(0)))


def build_or_open(
    folder: Path,
    stamp: Mapping[str, Any],
    make: Make,
    rows: Callable[[], int],
    what: str,
) -> ShardTable:
    """The table in `folder` of sources with this `stamp`: opened if it is there, else built, by one process while
    others wait for it. `what` describes it in messages.

    Raises RunError for a disk that is full or read-only, and whatever `make` raises."""
    with named_remedy():
        found, reason = _open_if_sound(folder, stamp)
        if found is not None:
            return found
        with atomic.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with waiting(folder, what):
            found, reason = _open_if_sound(folder, stamp)
            if found is None:
                if reason:
                    log.warning("%s: %s; it is built again", what, reason)
                _build(folder, stamp, make, rows, what)
        return open_table(folder)


def open_table(folder: Path) -> ShardTable:
    """The complete table in a folder, unchecked. Raises OSError and ValueError if there is none."""
    sizes = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))["shards"]
    return ShardTable(
        [Shard.read(_path(folder, number)) for number in range(len(sizes))], folder
    )


def _open_if_sound(
    folder: Path, stamp: Mapping[str, Any]
) -> tuple[ShardTable | None, str]:
    """The table if it is complete and sound; else None and why one that is there is of no use."""
    try:
        about = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))
        if about["version"] != VERSION:
            return (
                None,
                f"the encoded set in {folder} is of version {about['version']}, not {VERSION}",
            )
        if about["stamp"] != stamp:
            return None, "its sources changed since it was encoded"
        sums = sum(size for size, _ in about["shards"]) <= CHECKSUM_LIMIT
        for number, (size, checksum) in enumerate(about["shards"]):
            path = _path(folder, number)
            if path.stat().st_size != size or (sums and _checksum(path) != checksum):
                return None, f"{path} is damaged"
        return open_table(folder), ""
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        return (
            None,
            ""
            if missing == COMPLETE
            else f"the encoded set in {folder} lacks {missing}",
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        return (
            None,
            f"the encoded set in {folder} is damaged ({' '.join(str(error).split())[:100]})",
        )


def _build(
    folder: Path,
    stamp: Mapping[str, Any],
    make: Make,
    rows: Callable[[], int],
    what: str,
) -> None:
    begun = {"version": VERSION, "stamp": dict(stamp)}
    done = _keep_full_shards(folder, begun)
    atomic.write(folder / BEGUN, json.dumps(begun).encode())
    for number, shard in enumerate(
        show_progress(make(done), what, rows(), done * ROWS), done
    ):
        shard.write(_path(folder, number))
        done = number + 1
    paths = [_path(folder, number) for number in range(done)]
    about = begun | {
        "shards": [[path.stat().st_size, _checksum(path)] for path in paths]
    }
    atomic.write(folder / COMPLETE, json.dumps(about).encode())


def _keep_full_shards(folder: Path, begun: Mapping[str, Any]) -> int:
    """The number of full shards of a build of the same sources that was interrupted. All other files are removed, and
    all of a table that was complete and is of no use."""
    done, path = 0, folder / BEGUN
    if (
        not (folder / COMPLETE).exists()
        and path.is_file()
        and path.read_bytes() == json.dumps(begun).encode()
    ):
        while _is_full(_path(folder, done)):
            done += 1
    kept = {LOCK, *(_path(folder, number).name for number in range(done))}
    for path in folder.iterdir():
        if path.name not in kept:
            atomic.discard(path)
    return done


def _is_full(path: Path) -> bool:
    try:
        return len(Shard.read(path)) == ROWS
    except (OSError, ValueError):
        return False


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.arrow"


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            found = zlib.crc32(part, found)
    return found
