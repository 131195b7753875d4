"""Large sets on disk in place of lists: pairs and texts that are read from a table, and what is computed from them.

Sets below `SMALL` bytes of source stay in memory. What is derived from a set, such as its token ids, goes through
`derived` for both: a set on disk keeps it in its folder, one in memory computes it.
"""

import hashlib
import json
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
from jaxtyping import Int

from regard.config.recognition import compression
from regard.data.columns import Ragged, Shard
from regard.data.lazy_sequence import LazySequence
from regard.data.opening import files_of, size_of_file, stamp
from regard.data.pair import Pair
from regard.data.parallel import in_parallel
from regard.data.remote import is_remote
from regard.data.table import ROWS, Table, in_memory, on_disk
from regard.data.text_folders import has_texts
from regard.extras import how_to_install
from regard.storage.atomic import write
from regard.storage.cache_folder import BEGUN, SOURCE, named_remedy, sets

SMALL = 1 << 23
"""Bytes of source below which a set stays in memory."""
PACKED = 3
"""How many times as long as a compressed file its content is taken to be."""
PAIR = ("source", "target", "place")
E = TypeVar("E")
V = TypeVar("V")
log = logging.getLogger("regard")


@dataclass(frozen=True, eq=False)
class Stored(LazySequence[E], Generic[E]):
    """Examples of a table on disk: all of them, or the given `rows`. `name` tells parts of one table apart."""

    table: Table
    folder: Path
    paths: Sequence[str]
    rows: Int[np.ndarray, " row"] | None = None
    name: str = "all"

    @abstractmethod
    def example(self, shard: Shard, place: int) -> E:
        """The example at a place of a shard."""

    def __len__(self) -> int:
        return len(self.table) if self.rows is None else len(self.rows)

    def item(self, index: int) -> E:
        """The example at an index."""
        return self.example(
            *self.table.at(index if self.rows is None else int(self.rows[index]))
        )

    def values(self, name: str) -> Iterator[Any]:
        """An attribute of each example."""
        return (getattr(each, name) for each in self)

    def part(self: "S", rows: Int[np.ndarray, " row"], name: str) -> "S":
        """The examples of some rows."""
        return replace(self, rows=rows, name=name)


S = TypeVar("S", bound=Stored[Any])


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


class StoredPairs(Stored[Pair]):
    """Pairs with the columns source, target and place."""

    def example(self, shard: Shard, place: int) -> Pair:
        source, target, origin = (shard.columns[name].text(place) for name in PAIR)
        return Pair(source, target, origin)

    @staticmethod
    def shard(pairs: Sequence[Pair]) -> Shard:
        """Pairs as a shard."""
        parts = zip(
            *((pair.source, pair.target, pair.place) for pair in pairs), strict=True
        )
        return Shard(
            {
                name: Ragged.of_texts(part)
                for name, part in zip(PAIR, parts, strict=True)
            },
            {},
        )


class StoredTablePairs(StoredPairs):
    """Pairs of a table, whose targets may be several, with the column others besides."""

    def example(self, shard: Shard, place: int) -> Pair:
        return replace(
            super().example(shard, place),
            others=tuple(json.loads(shard.columns["others"].text(place))),
        )

    @staticmethod
    def shard(pairs: Sequence[Pair]) -> Shard:
        """Pairs as a shard."""
        found = StoredPairs.shard(pairs)
        others = Ragged.of_texts(json.dumps(pair.others) for pair in pairs)
        return Shard({**found.columns, "others": others}, found.counts)


class StoredTexts(Stored[str]):
    """Texts, with the column text."""

    def example(self, shard: Shard, place: int) -> str:
        return shard.columns["text"].text(place)

    @staticmethod
    def shard(texts: Sequence[str]) -> Shard:
        """Texts as a shard."""
        return Shard(
            {"text": Ragged.of_texts(texts)}, {"characters": sum(map(len, texts))}
        )


@dataclass(frozen=True, eq=False)
class Mapped(LazySequence[V], Generic[V]):
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
    files = [file for path in paths for file in files_of(path)]
    if not all(is_remote(file) or os.path.isfile(file) for file in files):
        return False  # the reader says what is wrong, or reads a stream
    if (
        sum(size_of_file(file) * (PACKED if compression(file) else 1) for file in files)
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


def stored(
    kind: type[S],
    paths: Sequence[str],
    settings: str,
    read: Callable[[], Iterator[Any]],
    rows: Callable[[], int],
) -> S:
    """The examples that `read` yields, about `rows` of them, from files with reader settings; read once."""
    names = [path if is_remote(path) else str(Path(path).resolve()) for path in paths]
    folder = sets() / _digest(kind.__name__, *names, settings)
    about = {
        "sources": [stamp(file) for path in paths for file in files_of(path)],
        "kind": kind.__name__,
    }

    def make(done: int) -> Iterator[Shard]:
        examples = islice(read(), done * ROWS, None)
        while some := list(islice(examples, ROWS)):
            yield kind.shard(some)  # pyright: ignore[reportAttributeAccessIssue]

    return kind(
        on_disk(folder / SOURCE, about, make, rows, ", ".join(paths)), folder, paths
    )


def derived(
    examples: Sequence[E], name: str, encode: Callable[[Sequence[E]], Shard]
) -> Table:
    """The table of what `encode` computes from consecutive examples, in their order; of a set on disk it is computed
    once for each `name`, which says all that it depends on."""

    def make(done: int) -> Iterator[Shard]:
        firsts = range(done * ROWS, len(examples), ROWS)
        parts = in_parallel if isinstance(examples, Stored) else map
        yield from parts(lambda first: encode(examples[first : first + ROWS]), firsts)

    if not isinstance(examples, Stored):
        return in_memory(make)
    folder = examples.folder / _digest(examples.name, name)
    about, what = {"source": _begun(examples)}, f"tokens of {', '.join(examples.paths)}"
    return on_disk(folder, about, make, lambda: len(examples), what)


def remembered(examples: Sequence[Any], name: str, compute: Callable[[], V]) -> V:
    """A value for JSON that is computed from examples; of a set on disk once for each `name`."""
    if not isinstance(examples, Stored):
        return compute()
    path, source = (
        examples.folder / f"{_digest(examples.name, name)}.json",
        _begun(examples),
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


def _begun(examples: Stored[Any]) -> str:
    """What the sources of a set were when it was encoded."""
    return _digest((examples.folder / SOURCE / BEGUN).read_text(encoding="utf-8"))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[
        :16
    ]
