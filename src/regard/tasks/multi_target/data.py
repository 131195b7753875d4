"""Texts in several languages: files that are aligned by line, or a table with a column a language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from regard.data.memory import Records
from regard.data.pair import Pair
from regard.data.readers import read_parallel
from regard.data.sources import Parallel, Table
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.errors import InputError

Row = tuple[Pair, ...]
"""A source with its target in each language."""


@dataclass(frozen=True, kw_only=True)
class Multiparallel(HeldOut, Tabular):
    """For each set the source's file and one for each of `languages`, in their order, aligned by line; or one table,
    whose columns are `source` and the languages; that of a key in JSON, `translation.de`, is called by its last part.
    Without `valid`, rows of the training set are held out.

    languages: The columns of the languages of a table, or the names of the files' languages, in their order.
    source: The column of the source in a table.
    """

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str, ...]
    train: str | tuple[str, ...] = ()
    valid: str | tuple[str, ...] = ()
    test: str | tuple[str, ...] = ()
    source: str = "source"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.names)) < max(1, len(self.names)):
            raise InputError(f"multiparallel: languages are {', '.join(self.names) or 'none'}; name each once")
        if wrong := [name for name in self.names if not re.fullmatch(r"[^\W_][\w-]*", name)]:
            raise InputError(
                f"multiparallel: languages has {wrong[0]!r}, which is no language's name; use letters, digits, hyphens "
                "and underscores"
            )
        for name, paths in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            self._check(f"multiparallel: {name}", paths)

    def _check(self, what: str, paths: str | tuple[str, ...]) -> None:
        """Raises InputError for another number of files than there are languages and the source."""
        if paths and not isinstance(paths, str) and len(paths) != len(self.languages) + 1:
            raise InputError(
                f"{what} has {len(paths)} files; expected {len(self.languages) + 1}, the source's and one for each "
                "language, or one table"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the languages: their columns, or of keys inside others the last part."""
        return tuple(name.rpartition(".")[2] for name in self.languages)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table."""
        return {"source": self.source, **{f"languages[{place}]": name for place, name in enumerate(self.languages)}}

    def load(self) -> dict[str, Splits[Pair]]:
        """Pairs by language, all with the same sources. Raises InputError with file and line for an invalid record."""
        if not self.train:
            files = ", ".join(["SOURCE", *map(str.upper, self.names)])
            raise InputError(f"data.train is not given; expected a table, or files as --set 'data.train=[{files}]'")
        train, valid, test = self._rows(self.train), self._rows(self.valid), self._rows(self.test)
        if not valid:
            what = f"{self.train if isinstance(self.train, str) else self.train[0]}: {len(train):,} sources"
            train, valid = self.hold_out(train, what, lambda row: row[0].source)
        sets = [self._by_language(some) for some in (train, valid, test)]
        return {name: Splits(*(each[name] for each in sets)) for name in self.names}

    def read(self, files: Sequence[Path | Records]) -> dict[str, list[Pair]]:
        """The pairs by language of other files, or of a table. Raises InputError as `load` does."""
        self._check("evaluation", () if len(files) == 1 else tuple(map(str, files)))
        return self._by_language(self._rows(str(files[0]) if len(files) == 1 else tuple(map(str, files))))

    def alone(self, language: str) -> Parallel | Table:
        """The section of one language, by its name."""
        place = self.names.index(language)
        if isinstance(self.train, str):
            valid, test = (each if isinstance(each, str) else None for each in (self.valid, self.test))
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
            (paths[0], paths[place + 1]) if paths and not isinstance(paths, str) else None
            for paths in (self.train, self.valid, self.test)
        )
        return Parallel(train=train, valid=valid, test=test, held_out=self.held_out, split_seed=self.split_seed)

    def _rows(self, files: str | tuple[str, ...]) -> list[Row]:
        if isinstance(files, str):
            found = ((row, *row.fields) for row in self.rows(files, self.columns))
            return [tuple(Pair(source, each, row.place) for each in targets) for row, source, *targets in found]
        return list(zip(*(read_parallel(files[0], each) for each in files[1:]), strict=True)) if files else []

    def _by_language(self, rows: Sequence[Row]) -> dict[str, list[Pair]]:
        return {name: [row[place] for row in rows] for place, name in enumerate(self.names)}
