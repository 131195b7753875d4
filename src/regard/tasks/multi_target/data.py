"""Texts in several languages: files that are aligned by line, or a table with a column a language."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.data.bad_records import Row as TableRow
from regard.data.columns import Ragged, Shard
from regard.data.memory import Records
from regard.data.pair import Pair
from regard.data.readers import read_parallel, stream_parallel
from regard.data.sources import Parallel, Table
from regard.data.splits import HeldOut, Splits
from regard.data.stored import Stored, is_large, stored
from regard.data.stored_pairs import held_out_rows, numbers
from regard.data.tables import Tabular
from regard.errors import InputError

Row = tuple[Pair, ...]
"""A source with its target in each language."""


@dataclass(frozen=True, kw_only=True)
class Multiparallel(HeldOut, Tabular):
    """For each set the source's file and one for each of `languages`, in their order, aligned by line; or one table,
    whose columns are `source` and the languages; that of a key in JSON, `translation.de`, is called by its last part,
    and one by number by its number. Without `valid`, rows of the training set are held out.

    languages: The columns of the languages of a table, or their numbers from 1, or the names of the files' languages,
        in their order.
    source: The column of the source in a table, or its number from 1.
    """

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str | int, ...]
    train: str | tuple[str, ...] = ()
    valid: str | tuple[str, ...] = ()
    test: str | tuple[str, ...] = ()
    source: str | int = "source"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.names)) < max(1, len(self.names)):
            raise InputError(
                f"multiparallel: languages are {', '.join(self.names) or 'none'}; name each once"
            )
        if wrong := [
            name for name in self.names if not re.fullmatch(r"[^\W_][\w-]*", name)
        ]:
            raise InputError(
                f"multiparallel: languages has {wrong[0]!r}, which is no language's name; use letters, digits, hyphens "
                "and underscores"
            )
        for name, paths in (
            ("train", self.train),
            ("valid", self.valid),
            ("test", self.test),
        ):
            self._check(f"multiparallel: {name}", paths)

    def _check(self, what: str, paths: str | tuple[str, ...]) -> None:
        """Raises InputError for another number of files than there are languages and the source."""
        if (
            paths
            and not isinstance(paths, str)
            and len(paths) != len(self.languages) + 1
        ):
            raise InputError(
                f"{what} has {len(paths)} files; expected {len(self.languages) + 1}, the source's and one for each "
                "language, or one table"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the languages: their columns, or of keys inside others the last part, or the numbers."""
        return tuple(str(name).rpartition(".")[2] for name in self.languages)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table."""
        return {
            "source": self.source,
            **{
                f"languages[{place}]": name for place, name in enumerate(self.languages)
            },
        }

    def load(self) -> dict[str, Splits[Pair]]:
        """Pairs by language, all with the same sources. Raises InputError with file and line for an invalid record."""
        if not self.train:
            files = ", ".join(["SOURCE", *map(str.upper, self.names)])
            raise InputError(
                f"data.train is not given; expected a table, or files as --set 'data.train=[{files}]'"
            )
        valid, test = self._rows(self.valid), self._rows(self.test)
        if is_large([self.train] if isinstance(self.train, str) else self.train):
            return self._on_disk(self.train, valid, test)
        train = self._rows(self.train)
        if not valid:
            what = f"{self.train if isinstance(self.train, str) else self.train[0]}: {len(train):,} sources"
            train, valid = self.hold_out(train, what, lambda row: row[0].source)
        sets = [self._by_language(some) for some in (train, valid, test)]
        return {name: Splits(*(each[name] for each in sets)) for name in self.names}

    def read(self, files: Sequence[Path | Records]) -> dict[str, list[Pair]]:
        """The pairs by language of other files, or of a table. Raises InputError as `load` does."""
        self._check("evaluation", () if len(files) == 1 else tuple(map(str, files)))
        return self._by_language(
            self._rows(str(files[0]) if len(files) == 1 else tuple(map(str, files)))
        )

    def alone(self, language: str) -> Parallel | Table:
        """The section of one language, by its name."""
        place = self.names.index(language)
        if isinstance(self.train, str):
            valid, test = (
                each if isinstance(each, str) else None
                for each in (self.valid, self.test)
            )
            return Table(
                train=self.train,
                valid=valid,
                test=test,
                source=self.source,
                target=self.languages[place],
                held_out=self.held_out,
                split_seed=self.split_seed,
                delimiter=self.delimiter,
                quoting=self.quoting,
                skip_bad=self.skip_bad,
            )
        train, valid, test = (
            (paths[0], paths[place + 1])
            if paths and not isinstance(paths, str)
            else None
            for paths in (self.train, self.valid, self.test)
        )
        return Parallel(
            train=train,
            valid=valid,
            test=test,
            held_out=self.held_out,
            split_seed=self.split_seed,
        )

    def _on_disk(
        self, files: str | tuple[str, ...], valid: Sequence[Row], test: Sequence[Row]
    ) -> dict[str, Splits[Pair]]:
        """The sets, with the training texts on disk."""
        paths = [files] if isinstance(files, str) else files
        settings = f"{dict(self.columns)} {self.layout()} {self.skip_bad} {isinstance(files, str)}"
        every = stored(
            StoredRows, paths, settings, lambda: self._streamed(files), lambda: 0
        )
        train = {
            name: every.of_language(place) for place, name in enumerate(self.names)
        }
        held_out: dict[str, list[Pair]] = self._by_language(valid)
        if not valid:
            first = next(iter(train.values()))
            rest, held, name = held_out_rows(
                self, first, "sources", lambda: numbers(pair.source for pair in first)
            )
            held_out = {
                each: [pairs[row] for row in held] for each, pairs in train.items()
            }
            train = {
                each: pairs.part(rest, f"{pairs.name} {name}")
                for each, pairs in train.items()
            }
        tests = self._by_language(test)
        return {
            name: Splits(train[name], held_out[name], tests[name])
            for name in self.names
        }

    def _streamed(self, files: str | tuple[str, ...]) -> Iterator[Row]:
        """The rows of a set, one in memory at a time."""
        if not isinstance(files, str):
            return zip(
                *(stream_parallel(files[0], each) for each in files[1:]), strict=True
            )
        return map(_row, self.streamed(files, self.columns))

    def _rows(self, files: str | tuple[str, ...]) -> list[Row]:
        if isinstance(files, str):
            return list(map(_row, self.rows(files, self.columns)))
        return (
            list(
                zip(*(read_parallel(files[0], each) for each in files[1:]), strict=True)
            )
            if files
            else []
        )

    def _by_language(self, rows: Sequence[Row]) -> dict[str, list[Pair]]:
        return {
            name: [row[place] for row in rows] for place, name in enumerate(self.names)
        }


def _row(row: TableRow) -> Row:
    """A row of a source and its targets."""
    source, *targets = row.fields
    return tuple(Pair(source, each, row.place) for each in targets)


class StoredRows(Stored[Row]):
    """Sources with their targets, in the columns source, place and a number for each language."""

    def example(self, shard: Shard, place: int) -> Row:
        return tuple(
            _pair(shard, place, number) for number in range(len(shard.columns) - 2)
        )

    @staticmethod
    def shard(rows: Sequence[Row]) -> Shard:
        """Rows as a shard."""
        texts = {
            "source": [row[0].source for row in rows],
            "place": [row[0].place for row in rows],
        }
        texts |= {
            str(number): [row[number].target for row in rows]
            for number in range(len(rows[0]))
        }
        return Shard({name: Ragged.of_texts(some) for name, some in texts.items()}, {})

    def of_language(self, number: int) -> "StoredTargets":
        """The pairs of one language."""
        return StoredTargets(
            self.table, self.folder, self.paths, self.rows, f"language {number}", number
        )


@dataclass(frozen=True, eq=False)
class StoredTargets(Stored[Pair]):
    """Sources with their targets in one language."""

    language: int = 0

    def example(self, shard: Shard, place: int) -> Pair:
        return _pair(shard, place, self.language)


def _pair(shard: Shard, place: int, language: int) -> Pair:
    source, target, origin = (
        shard.columns[name].text(place) for name in ("source", str(language), "place")
    )
    return Pair(source, target, origin)
