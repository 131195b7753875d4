"""Tables of columns: small ones in memory, large ones in shards on disk that are built once and mapped by every start.

A table on disk is a folder of Arrow files of `ROWS` rows each. `complete.json` is written last, so a table is whole or
is built on: a killed build loses at most the shard that it was writing.
"""

import json
import logging
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from regard.data.columns import Shard
from regard.data.progress import shown
from regard.storage import atomic
from regard.storage.cache_folder import BEGUN, named_remedy
from regard.storage.lock import NAME as LOCK
from regard.storage.waiting import waiting

ROWS = 1 << 16
"""The rows of a shard; the last one may have fewer."""
VERSION = 1
COMPLETE = "complete.json"
SUMMED = 1 << 30
"""A table of at most so many bytes is compared with its checksums whenever it is opened, which takes a second."""
log = logging.getLogger("regard")

Make = Callable[[int], Iterator[Shard]]
"""From a number of shards that exist to the shards behind them."""


@dataclass(frozen=True, eq=False)
class Table:
    """Shards of equally many rows. `folder` is that of a table on disk, which a pickled table is read from again."""

    shards: Sequence[Shard]
    folder: Path | None = None

    def __len__(self) -> int:
        return (
            ROWS * (len(self.shards) - 1) + len(self.shards[-1]) if self.shards else 0
        )  # as `at` has it

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            (Table, (self.shards,)) if self.folder is None else (mapped, (self.folder,))
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


def in_memory(make: Make) -> Table:
    """A table in memory."""
    return Table(list(make(0)))


def on_disk(
    folder: Path,
    stamp: Mapping[str, Any],
    make: Make,
    rows: Callable[[], int],
    what: str,
) -> Table:
    """The table in `folder` of sources with this `stamp`: opened if it is there, else built, by one process while
    others wait for it. `what` describes it in messages.

    Raises RunError for a disk that is full or read-only, and whatever `make` raises."""
    with named_remedy():
        found, reason = _opened(folder, stamp)
        if found is not None:
            return found
        with atomic.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with waiting(folder, what):
            found, reason = _opened(folder, stamp)
            if found is None:
                if reason:
                    log.warning("%s: %s; it is built again", what, reason)
                _build(folder, stamp, make, rows, what)
        return mapped(folder)


def mapped(folder: Path) -> Table:
    """The complete table in a folder, unchecked. Raises OSError and ValueError if there is none."""
    sizes = json.loads((folder / COMPLETE).read_text(encoding="utf-8"))["shards"]
    return Table(
        [Shard.read(_path(folder, number)) for number in range(len(sizes))], folder
    )


def _opened(folder: Path, stamp: Mapping[str, Any]) -> tuple[Table | None, str]:
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
        sums = sum(size for size, _ in about["shards"]) <= SUMMED
        for number, (size, checksum) in enumerate(about["shards"]):
            path = _path(folder, number)
            if path.stat().st_size != size or (sums and _checksum(path) != checksum):
                return None, f"{path} is damaged"
        return mapped(folder), ""
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
    done = _kept(folder, begun)
    atomic.write(folder / BEGUN, json.dumps(begun).encode())
    for number, shard in enumerate(shown(make(done), what, rows(), done * ROWS), done):
        shard.write(_path(folder, number))
        done = number + 1
    paths = [_path(folder, number) for number in range(done)]
    about = begun | {
        "shards": [[path.stat().st_size, _checksum(path)] for path in paths]
    }
    atomic.write(folder / COMPLETE, json.dumps(about).encode())


def _kept(folder: Path, begun: Mapping[str, Any]) -> int:
    """The number of full shards of a build of the same sources that was interrupted. All other files are removed, and
    all of a table that was complete and is of no use."""
    done, path = 0, folder / BEGUN
    if (
        not (folder / COMPLETE).exists()
        and path.is_file()
        and path.read_bytes() == json.dumps(begun).encode()
    ):
        while _full(_path(folder, done)):
            done += 1
    kept = {LOCK, *(_path(folder, number).name for number in range(done))}
    for path in folder.iterdir():
        if path.name not in kept:
            atomic.discard(path)
    return done


def _full(path: Path) -> bool:
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
