"""Pairs of source and target text: parallel files, tables and word alignments."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.config.file_kinds import TEXTS, Kind, detect_text_table, suffix
from regard.data.cache import is_large
from regard.data.data_files import DataFiles, Mixed, TableFiles
from regard.data.delimited import Columns
from regard.data.files import (
    DEFAULT_LIMITS,
    Limits,
    check_one_set,
    count_lines,
    iterate_numbered_lines,
    list_files,
    read_lines,
)
from regard.data.questions import Question, QuestionFiles, join_lines
from regard.data.records import Records
from regard.data.rows import Row, RowCollector
from regard.data.tables import READERS, kind, kinds, read_table
from regard.errors import InputError
from regard.maps.links import Gold, Link, Links


@dataclass(frozen=True)
class Pair:
    """A source text and its target text.

    Attributes:
        source: Text that is read.
        target: Text that should be written.
        place: Origin (`file:line`), for messages.
        group: Name under which pairs are scored separately; empty by default.
        links: Word alignment, if known.
        others: Further correct outputs, which count in scores only.
    """

    source: str
    target: str
    place: str
    group: str = ""
    links: Links | None = None
    others: tuple[str, ...] = ()

    @property
    def references(self) -> tuple[str, ...]:
        """All correct outputs, the target first."""
        return (self.target, *self.others)


_LINK = re.compile(r"(\d+)([-?p])(\d+)")


def read_links(path: str | Path) -> list[Links]:
    """Read one line of `i-j` links for each sentence, words counted from 0.

    Raises:
        InputError: A line has something else, with file and line.
    """
    lines = enumerate(read_lines(path), 1)
    return [_parse_links(f"{path}:{number}", line, "-")[0] for number, line in lines]


def read_gold(path: str | Path) -> list[Gold]:
    """Read gold links, sure and possible.

    Args:
        path: Lines of `i-j` (sure) and `i?j` or `ipj` (possible), or JSON lines with
            `sure`, optionally `possible` (lists of [source, target]) and the words
            `src` and `tgt`.

    Raises:
        InputError: A line has something else or a link outside the words.
    """
    gold = []
    for number, line in enumerate(read_lines(path), 1):
        location = f"{path}:{number}"
        if suffix(path) == "jsonl":
            sure, possible = _links_in_json(location, line)
        else:
            sure, possible = _parse_links(location, line, "-?p")
        gold.append(Gold(sure, sure | possible))
    return gold


def check_inside(
    place: str, links: Links, words: tuple[int | None, int | None]
) -> None:
    """Raise InputError for a link beyond the words of a side; None allows any."""
    for link in sorted(links):
        for side, index, count in zip(("source", "target"), link, words, strict=True):
            if count is not None and index >= count:
                raise InputError(
                    f"{place}: link {link[0]}-{link[1]} lies outside the {count} words "
                    f"of the {side}; words count from 0"
                )


def _parse_links(location: str, line: str, marks: str) -> tuple[Links, Links]:
    """Parse the sure and the possible links of a line."""
    sure: set[Link] = set()
    possible: set[Link] = set()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None or match[2] not in marks:
            examples = " or ".join(f"3{mark}5" for mark in marks)
            raise InputError(
                f"{location}: got {part!r}; expected links such as {examples}"
            )
        links = sure if match[2] == "-" else possible
        links.add((int(match[1]), int(match[3])))
    return frozenset(sure), frozenset(possible)


def _links_in_json(location: str, line: str) -> tuple[Links, Links]:
    """Parse the sure and the possible links of an object."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise InputError(f"{location}: is not JSON ({error})") from error
    if not isinstance(record, dict) or "sure" not in record:
        raise InputError(
            f"{location}: has no `sure`; expected an object with a list of "
            "[source, target] under it"
        )
    sure = _link_list(location, record, "sure")
    possible = _link_list(location, record, "possible")
    source, target = (
        len(str(record[name]).split()) if name in record else None
        for name in ("src", "tgt")
    )
    check_inside(location, sure | possible, (source, target))
    return sure, possible


def _link_list(location: str, record: dict[str, Any], name: str) -> Links:
    links: set[Link] = set()
    for link in record.get(name, []):
        match link:
            case [int() as source, int() as target] if min(source, target) >= 0:
                links.add((source, target))
            case _:
                raise InputError(
                    f"{location}: {name} has {link!r}; expected [source, target], "
                    "counted from 0"
                )
    return frozenset(links)


def read_parallel(
    source_path: str | Path,
    target_path: str | Path,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Pair line i of one file with line i of the other.

    Raises:
        InputError: Their lengths differ or a side is blank.
    """
    paths = source_path, target_path
    sources, targets = (read_lines(path, limits) for path in paths)
    blanks = (
        _first_blank(path, enumerate(lines, 1))
        for path, lines in zip(paths, (sources, targets), strict=True)
    )
    _check_equal(paths, [len(sources), len(targets)], blanks)
    collector = RowCollector(source_path, skip_bad)
    return list(_zip_lines(paths, sources, targets, collector))


def stream_parallel(
    source_path: str,
    target_path: str,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> Iterator[Pair]:
    """Yield the pairs of `read_parallel`, one in memory at a time; read files twice.

    Raises:
        InputError: Their lengths differ or a side is blank.
    """
    paths = source_path, target_path
    counts = [count_lines(path, limits) for path in paths]
    blanks = (
        _first_blank(path, iterate_numbered_lines(path, limits)) for path in paths
    )
    _check_equal(paths, counts, blanks)
    sources, targets = (
        map(itemgetter(1), iterate_numbered_lines(path, limits)) for path in paths
    )
    yield from _zip_lines(paths, sources, targets, RowCollector(source_path, skip_bad))


def match_files(paths: tuple[str, str]) -> list[tuple[str, str]]:
    """Match the files of two sides, each a file, a folder or a pattern, by their order.

    Raises:
        InputError: The sides have different numbers of files.
    """
    sources, targets = (list_files(str(path)) for path in paths)
    check_one_set(dict(zip(map(str, paths), (sources, targets), strict=True)))
    if len(sources) != len(targets):
        raise InputError(
            f"{paths[0]} names {len(sources)} files, {paths[1]} {len(targets)}; "
            "expected equally many, which are paired in the order of their names"
        )
    return list(zip(sources, targets, strict=True))


def _check_equal(
    paths: tuple[str | Path, str | Path],
    counts: Sequence[int],
    blanks: Iterator[str | None],
) -> None:
    if counts[0] != counts[1]:
        blank = next(filter(None, blanks), None)
        hint = f"first blank line at {blank}" if blank else "neither has a blank line"
        raise InputError(
            f"{paths[0]} has {counts[0]} lines, {paths[1]} has {counts[1]}; "
            f"expected equally many ({hint})"
        )


def _first_blank(path: str | Path, lines: Iterable[tuple[int, str]]) -> str | None:
    """Return the location of the first blank line."""
    return next((f"{path}:{n}" for n, line in lines if not line.strip()), None)


def _zip_lines(
    paths: tuple[str | Path, str | Path],
    sources: Iterable[str],
    targets: Iterable[str],
    collector: RowCollector,
) -> Iterator[Pair]:
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        if not source.strip():
            collector.refuse(number, "blank line, so the pair has no source")
        elif not target.strip():
            collector.refuse(number, f"its partner {paths[1]}:{number} is blank")
        else:
            collector.kept += 1
            yield Pair(source, target, f"{paths[0]}:{number}")
    collector.check(collector.kept)


def read_pairs(
    path: str | Path, columns: Columns, *, skip_bad: bool = False
) -> list[Pair]:
    """Read the source and the target column of a table.

    If a JSON record's target is a list, its further items are correct outputs too.

    Raises:
        InputError: A row is bad or the table cannot be read.
    """
    return list(map(pair_of, read_table(path, columns, skip_bad=skip_bad)))


def read_pair_files(
    files: Sequence[Path | Records],
    columns: str = "source,target",
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Read a source and a target file, or two columns of one table.

    Raises:
        InputError: There are other numbers of files or columns, or a bad row.
    """
    if len(files) > 2:
        raise InputError(
            f"{len(files)} files given; expected source and target text, or one table"
        )
    if len(files) == 2:
        source, target = files
        return read_parallel(source, target, skip_bad=skip_bad)
    (file,) = files
    if suffix(file) not in READERS and not detect_text_table(file):
        raise InputError(
            f"{file}: one file must be a table ({kinds()}, or these with .gz); of plain "
            "text give two"
        )
    return read_pairs(file, _parse_columns(columns, kind(file)), skip_bad=skip_bad)


def _parse_columns(columns: str, form: str) -> Columns:
    """Parse two names, or in a table without keys two numbers from 1."""
    parts = [part.strip() for part in columns.split(",")]
    numbered = all(part.isdecimal() for part in parts)
    if len(parts) != 2 or not all(parts) or (numbered and form == "jsonl"):
        expected = "two names" if form == "jsonl" else "two names or two numbers"
        raise InputError(
            f"columns is {columns!r}; expected {expected} with a comma between"
        )
    return tuple(map(int, parts)) if numbered else tuple(parts)


def pair_of(row: Row) -> Pair:
    """Return a row of a source and a target as a pair."""
    source, target = row.fields
    return Pair(source, target, row.place, others=row.others)


@dataclass(frozen=True, kw_only=True)
class Parallel(Mixed[Pair]):
    """Two text files for each set, aligned by line, or two folders or patterns.

    An imported run has no files for training. Without `valid`, pairs of the training
    files are held out; pairs of one source stay together.

    train: The source's file and the target's.
    valid: The same for validation.
    test: The same for the test.
    skip_bad: Skip pairs with a blank side and count them.
    links: A file with the word alignment of the training pairs, a line of `i-j` links
        each, for guided training.
    """

    kind: Literal["parallel"] = "parallel"
    train: tuple[str, str] | None = None
    valid: tuple[str, str] | None = None
    test: tuple[str, str] | None = None
    skip_bad: bool = False
    links: str | None = None

    recognised: ClassVar[tuple[Kind, ...]] = ("two files",)
    example_type = Pair
    noun = "pairs"
    expected = (
        "two text files, as --set 'data.train=[SOURCE, TARGET]', or a table with a "
        "column of each"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.links and self.skip_bad:
            raise InputError("parallel: links go by line, so skip_bad must be false")

    def examples(self, path: tuple[str, str]) -> Iterator[Pair]:
        """Yield the pairs of two sides. Raises InputError as `load` does."""
        read = stream_parallel if is_large(path) else read_parallel
        for source, target in match_files(path):
            yield from read(source, target, skip_bad=self.skip_bad)

    def entries(self, path: tuple[str, str]) -> Iterator[tuple[str, Pair]]:
        """Yield the pairs of two sides, those of training with their links."""
        pairs = self.examples(path)
        if self.links and path == self.train:
            pairs = iter(_add_links(list(pairs), self.links))
        return (("", pair) for pair in pairs)

    def count(self) -> int:
        """Return the number of training pairs."""
        return sum(map(count_lines, list_files(self.train[0]))) if self.train else 0

    def group(self, example: Pair) -> str:
        """Return the source, since a source with several targets stays in one set."""
        return example.source


@dataclass(frozen=True, kw_only=True)
class Table(Mixed[Pair], TableFiles[Pair]):
    """A table for each set, or a folder or a pattern of several.

    Without `valid`, rows of the training file are held out; those of one source stay
    together.

    source: The column of the source, or its number from 1.
    target: The column of the target, or its number from 1.
    """

    kind: Literal["table"] = "table"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    source: str | int = "source"
    target: str | int = "target"

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder of tables")
    example_type = Pair
    noun = "pairs"
    expected = "a table with a column for each side, as --set data.train=FILE"

    def __post_init__(self) -> None:
        super().__post_init__()
        paths = [path for path in (self.train, self.valid, self.test) if path]
        for path in paths:
            # a text is a table by its lines, and may be gone when a run is loaded
            if suffix(path) not in TEXTS:
                kind(path)
        self.check_columns(self.columns, *paths)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of source and target."""
        return {"source": self.source, "target": self.target}

    def parse(self, row: Row) -> Pair:
        """Return the pair of a row."""
        return pair_of(row)

    def group(self, example: Pair) -> str:
        """Return the source, since a source with several targets stays in one set."""
        return example.source


def as_pair(question: Question) -> Pair:
    """Return a question and its context as the source of its distinct answers."""
    answers = dict.fromkeys(join_lines(answer.text) for answer in question.answers)
    target, *others = answers
    source = f"{join_lines(question.question)} {join_lines(question.context)}"
    return Pair(source, target, question.place, others=tuple(others))


@dataclass(frozen=True, kw_only=True)
class Squad(QuestionFiles[Pair]):
    """Questions about paragraphs, as pairs.

    The source is the question and its paragraph; several answers are all correct.
    """

    kind: Literal["squad"] = "squad"

    convert = staticmethod(as_pair)


def _add_links(pairs: Sequence[Pair], path: str) -> list[Pair]:
    """Add the word alignment of each pair from a file."""
    links = read_links(path)
    if len(links) != len(pairs):
        raise InputError(
            f"{path} has {len(links)} lines, the training pairs are {len(pairs)}; "
            "expected equally many"
        )
    for number, (pair, pair_links) in enumerate(zip(pairs, links, strict=True), 1):
        words = len(pair.source.split()), len(pair.target.split())
        check_inside(f"{path}:{number}", pair_links, words)
    return [replace(p, links=line) for p, line in zip(pairs, links, strict=True)]


def tests_of(data: Any) -> Sequence[Pair]:
    """Read the test set of a section, of files without the other sets."""
    return data.tests() if isinstance(data, DataFiles) else data.load().test


def numbers(texts: Iterable[str]) -> list[int]:
    """Return a number for each text, the same for equal ones."""
    return [number(text) for text in texts]


def number(text: str, *, signed: bool = False) -> int:
    """Return a number for a text: eight bytes of its BLAKE2."""
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=signed)
