"""The `data:` sections of run files that read pairs from files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from regard.config.recognition import TEXTS, Kind, suffix
from regard.data.links import check_inside, read_links
from regard.data.mixture import Mixed, file_of
from regard.data.pair import Pair
from regard.data.readers import all_pairs, pairs, read_parallel
from regard.data.splits import HeldOut, Splits
from regard.data.squad import QuestionFiles, as_pair
from regard.data.stored import is_large
from regard.data.stored_pairs import parallel_pairs, table_pairs, with_held_out
from regard.data.tables import Tabular, kind, kinds
from regard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Parallel(HeldOut, Mixed):
    """Two text files per set, (source, target), aligned by line, or two folders or patterns of several; an imported run
    has none for training. `skip_bad` skips pairs with a blank side. `links` is a file with the word alignment of the
    training pairs, one line of `i-j` links each, for guided training. Without `valid`, pairs of the training files are
    held out."""

    kind: Literal["parallel"] = "parallel"
    train: tuple[str, str] | None = None
    valid: tuple[str, str] | None = None
    test: tuple[str, str] | None = None
    skip_bad: bool = False
    links: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.links and self.skip_bad:
            raise InputError("parallel: links go by line, so skip_bad must be false")

    recognised: ClassVar[tuple[Kind, ...]] = ("two files",)

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and line at fault."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected two text files, as --set 'data.train=[SOURCE, TARGET]', or a table "
                "with a column of each"
            )
        if not self.links and is_large(self.train):
            every = parallel_pairs(self.train, skip_bad=self.skip_bad)
            return _mixed(
                self, with_held_out(self, every, self._read(self.valid), self.tests())
            )
        train = self._read(self.train)
        train = _linked(train, self.links) if self.links else train
        return _mixed(
            self,
            _with_valid(
                self, train, self._read(self.valid), self.tests(), self.train[0]
            ),
        )

    def tests(self) -> list[Pair]:
        """The pairs of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return self._read(self.test)

    def _read(self, paths: tuple[str, str] | None) -> list[Pair]:
        return (
            list(all_pairs(paths, read_parallel, skip_bad=self.skip_bad))
            if paths
            else []
        )


@dataclass(frozen=True, kw_only=True)
class Table(HeldOut, Tabular, Mixed):
    """One .tsv, .csv, .jsonl, .json, .parquet or .arrow file per set, or a folder or a pattern of several. `source` and
    `target` are column names, or numbers from 1. Without `valid`, rows of the training file are held out.

    source: The column of the source, or its number from 1.
    target: The column of the target, or its number from 1.
    """

    kind: Literal["table"] = "table"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    source: str | int = "source"
    target: str | int = "target"

    def __post_init__(self) -> None:
        super().__post_init__()
        paths = [
            path for path in (self.train, self.valid, self.test) if path is not None
        ]
        for path in paths:
            if (
                suffix(path) not in TEXTS
            ):  # which is a table by its lines, and may be gone when a run is loaded
                kind(path)
        self.check_columns(self.columns, *paths)

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder of tables")

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of source and target."""
        return {"source": self.source, "target": self.target}

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and line at fault."""
        if self.train is None:
            raise InputError(
                f"data.train is not given; expected a table ({kinds()}), as --set data.train=FILE"
            )
        valid = self.read_pairs(self.valid) if self.valid else []
        if is_large([self.train]):
            return _mixed(
                self,
                with_held_out(self, table_pairs(self.train, self), valid, self.tests()),
            )
        return _mixed(
            self,
            _with_valid(
                self, self.read_pairs(self.train), valid, self.tests(), self.train
            ),
        )

    def tests(self) -> list[Pair]:
        """The pairs of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return self.read_pairs(self.test) if self.test else []

    def read_pairs(self, path: str) -> list[Pair]:
        """Read the pairs of another table. Raises InputError as `load` does."""
        return pairs(self.rows(path, self.columns))


@dataclass(frozen=True, kw_only=True)
class Squad(QuestionFiles):
    """Questions about paragraphs, as pairs. The source is the question and its paragraph; several answers are all
    correct."""

    kind: Literal["squad"] = "squad"

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and place at fault."""
        found = self.questions()
        return Splits(
            *(
                [as_pair(each) for each in some]
                for some in (found.train, found.valid, found.test)
            )
        )

    def tests(self) -> list[Pair]:
        """The pairs of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return [as_pair(each) for each in self.test_questions()]

    def read_pairs(self, path: str) -> list[Pair]:
        """Read the pairs of another file. Raises InputError as `load` does."""
        return [as_pair(each) for each in self.read(path)]


def tests_of(data: Any) -> Sequence[Pair]:
    """The pairs of a section's test set, of files without reading the other sets. Raises InputError as `load` does."""
    return (
        data.tests() if isinstance(data, Parallel | Table | Squad) else data.load().test
    )


def _with_valid(
    how: HeldOut, train: list[Pair], valid: list[Pair], test: list[Pair], path: str
) -> Splits[Pair]:
    """The sets, with pairs held out where there are none for validation; pairs of one source stay together."""
    if not valid:
        train, valid = how.hold_out(
            train, f"{path}: {len(train):,} pairs", lambda pair: pair.source
        )
    return Splits(train, valid, test)


def _mixed(how: Mixed, splits: Splits[Pair]) -> Splits[Pair]:
    return replace(
        splits, train=how.mixed(splits.train, lambda pair: file_of(pair.place))
    )


def _linked(pairs: Sequence[Pair], path: str) -> list[Pair]:
    found = read_links(path)
    if len(found) != len(pairs):
        raise InputError(
            f"{path} has {len(found)} lines, the training pairs are {len(pairs)}; expected equally many"
        )
    for number, (pair, links) in enumerate(zip(pairs, found, strict=True), 1):
        check_inside(
            f"{path}:{number}",
            links,
            (len(pair.source.split()), len(pair.target.split())),
        )
    return [
        replace(pair, links=links) for pair, links in zip(pairs, found, strict=True)
    ]
