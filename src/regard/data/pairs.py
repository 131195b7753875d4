"""Pairs of source and target text: parallel files, tables and word alignments."""

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, NonNegativeInt, ValidationError

from regard.config.file_kinds import TEXTS, is_table, suffix
from regard.data.data_files import DataFiles, TableFiles
from regard.data.files import (
    FilePath,
    is_remote,
    iterate_lines,
    list_set_files,
    read_lines,
)
from regard.data.questions import Question, QuestionFiles, join_lines
from regard.data.records import Records
from regard.data.rows import Row, RowCollector
from regard.data.splits import HeldOut, Splits
from regard.data.tables import (
    Columns,
    Tabular,
    kind,
    kinds,
    read_divided_lines,
    split_sides,
)
from regard.errors import InputError
from regard.maps.links import Gold, Links


@dataclass(frozen=True)
class Pair:
    """A source text and its target text.

    Attributes:
        source: Text that is read.
        target: Text that should be written.
        place: Origin (`file:line`), for messages.
        group: Name under which pairs are scored separately; empty by default.
        links: Word alignment, if known.
        alternatives: Further correct outputs, which count in scores only.
    """

    source: str
    target: str
    place: str
    group: str = ""
    links: Links | None = None
    alternatives: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text by which generated pairs are told apart: the source."""
        return self.source

    @property
    def is_complete(self) -> bool:
        """Whether neither side is blank."""
        return bool(self.source.strip() and self.target.strip())

    @property
    def references(self) -> tuple[str, ...]:
        """All correct outputs, the target first."""
        return (self.target, *self.alternatives)


INDEX = re.compile(r"(\d+)\t.*\n\1\t")
"""A source and a target with a column of numbers."""
log = logging.getLogger("regard")
LINK = re.compile(r"(\d+)([-?p])(\d+)")


def read_links(path: FilePath) -> list[Links]:
    """Read one line of `i-j` links for each sentence, words counted from 0.

    Raises:
        InputError: A line has something else, with file and line.
    """
    lines = enumerate(read_lines(path), 1)
    return [_parse_links(f"{path}:{number}", line, "-").sure for number, line in lines]


def read_gold(path: FilePath, *, one_based: bool = False) -> list[Gold]:
    """Read gold links, sure and possible.

    Args:
        path: Lines of `i-j` (sure) and `i?j` or `ipj` (possible), or JSON lines with
            `sure` and optionally `possible` (lists of [source, target]).
        one_based: Whether words are counted from 1.

    Raises:
        InputError: A line has something else.
    """
    parse = _parse_json_links if suffix(path) == "jsonl" else _parse_links
    result = []
    for number, line in enumerate(read_lines(path), 1):
        gold = parse(f"{path}:{number}", line)
        if one_based and has_first_word(gold.possible):
            raise InputError(
                f"{path}:{number}: a link has the word 0, but --one-based counts from 1"
            )
        result.append(gold.shift(-1) if one_based else gold)
    return result


def has_first_word(links: Links) -> bool:
    """Return whether a link has the word 0 of a side."""
    return any(0 in link for link in links)


def check_inside(place: str, links: Links, words: tuple[int, int]) -> None:
    """Raise InputError for a link beyond the words of a side."""
    for link in sorted(links):
        for side, index, count in zip(("source", "target"), link, words, strict=True):
            if index >= count:
                raise InputError(
                    f"{place}: link {link[0]}-{link[1]} lies outside the {count} words "
                    f"of the {side}; words count from 0"
                )


def _parse_links(location: str, line: str, marks: str = "-?p") -> Gold:
    """Parse the sure links of a line, and all of them."""
    sure = set()
    possible = set()
    for part in line.split():
        match = LINK.fullmatch(part)
        if match is None or match[2] not in marks:
            examples = " or ".join(f"3{mark}5" for mark in marks)
            raise InputError(
                f"{location}: got {part!r}; expected links such as {examples}"
            )
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


class JsonLinks(BaseModel):
    """The links of a sentence in JSON."""

    sure: frozenset[tuple[NonNegativeInt, NonNegativeInt]]
    possible: frozenset[tuple[NonNegativeInt, NonNegativeInt]] = frozenset()


def _parse_json_links(location: str, line: str) -> Gold:
    """Parse the sure links of an object, and all of them."""
    try:
        links = JsonLinks.model_validate_json(line)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(
            f"{location}: has no links ({reason}); expected an object with `sure`, and "
            "optionally `possible`, lists of [source, target] counted from 0"
        ) from error
    return Gold(links.sure, links.sure | links.possible)


def read_parallel(
    source_path: FilePath,
    target_path: FilePath,
    *,
    skip_bad: bool = False,
    keep_blank: bool = False,
) -> Iterator[Pair]:
    """Pair line i of one file with line i of the other.

    Args:
        source_path: The file of the sources.
        target_path: The file of the targets.
        skip_bad: Leave out pairs with a blank side.
        keep_blank: Keep them.

    Raises:
        InputError: Their lengths differ, or a side is blank and neither left out nor
            kept.
    """
    paths = source_path, target_path
    if all(is_remote(path) or os.path.isfile(path) for path in paths):
        _check_equal_lengths(paths)  # not of a pipe, which is read once
    texts = ((line.text for line in iterate_lines(path)) for path in paths)
    collector = RowCollector(source_path, skip_bad)
    for number, (source, target) in enumerate(zip_longest(*texts, fillvalue=""), 1):
        pair = Pair(source, target, f"{source_path}:{number}")
        if number == 1 and (index := INDEX.match(f"{source}\n{target}")):
            log.warning(
                "%s: both sides begin with %s and a tab, which is read as text; if lines "
                "are numbered, remove the numbers with cut -f 2-",
                *(pair.place, index[1]),
            )
        if pair.is_complete or keep_blank:
            collector.kept += 1
            yield pair
        elif source.strip():
            collector.refuse(number, f"its partner {target_path}:{number} is blank")
        else:
            collector.refuse(number, "blank line, so the pair has no source")
    collector.check()


def read_sides(source: FilePath, target: FilePath | None) -> list[Pair]:
    """Read the pairs of two files, or without `target` of lines `source ||| target`.

    Pairs with a blank side are kept.

    Raises:
        InputError: As `read_parallel`, or a line has no two sides.
    """
    if target is not None:
        return list(read_parallel(source, target, keep_blank=True))
    pairs = []
    for record in read_divided_lines(source, split_sides):
        place = f"{source}:{record.number}"
        if record.fault:
            raise InputError(f"{place}: {record.fault}; or set --target")
        pairs.append(Pair(**record.values, place=place))
    return pairs


def _check_equal_lengths(paths: Sequence[FilePath]) -> None:
    counts = []
    blanks = []
    for path in paths:
        number = 0
        for number, _, text in iterate_lines(path):
            if not text.strip():
                blanks.append(f"{path}:{number}")
        counts.append(number)
    if counts[0] != counts[1]:
        blank = f"first blank line at {blanks[0]}" if blanks else "none is blank"
        raise InputError(
            f"{paths[0]} has {counts[0]} lines, {paths[1]} has {counts[1]}; expected "
            f"equally many ({blank})"
        )


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
    paths = list(map(str, files))
    if len(paths) == 2:
        return list(read_parallel(*paths, skip_bad=skip_bad))
    if len(paths) > 2 or not is_table(paths[0]):
        raise InputError(
            f"{', '.join(paths)}: expected a source and a target file, or one table "
            f"({kinds()}, or these with .gz)"
        )
    return list(Table().with_columns(columns, skip_bad=skip_bad).read(paths[0]))


@dataclass(frozen=True, kw_only=True)
class Parallel(DataFiles[Pair]):
    """Two text files for each set, aligned by line, or two folders or patterns.

    An imported run has no files for training. Without `valid`, pairs of the training
    files are held out; pairs of one source stay together.

    Attributes:
        train: The source's file and the target's.
        valid: The same for validation.
        test: The same for the test.
        skip_bad: Skip pairs with a blank side and count them.
        links: A file with the word alignment of the training pairs, a line of `i-j`
            links each, for guided training.
    """

    kind: Literal["parallel"] = "parallel"
    train: tuple[str, str] | None = None
    valid: tuple[str, str] | None = None
    test: tuple[str, str] | None = None
    skip_bad: bool = False
    links: str | None = None

    recognised = ("two files",)
    example_type = Pair
    noun = "pairs"
    expected = (
        "two text files, as --set 'data.train=[SOURCE, TARGET]', or a table with a "
        "column of each"
    )

    def __post_init__(self) -> None:
        if self.links and self.skip_bad:
            raise InputError("parallel: links go by line, so skip_bad must be false")

    def examples(self, path: tuple[str, str]) -> Iterator[Pair]:
        """Yield the pairs of two sides. Raises InputError as `load` does."""
        sources, targets = map(list_set_files, path)
        if len(sources) != len(targets):
            raise InputError(
                f"{path[0]} names {len(sources)} files, {path[1]} {len(targets)}; "
                "expected equally many, which are paired in the order of their names"
            )
        for source, target in zip(sources, targets, strict=True):
            yield from read_parallel(source, target, skip_bad=self.skip_bad)

    def train_examples(self) -> Iterator[Pair]:
        """Yield the training pairs with their links."""
        if not self.links:
            yield from super().train_examples()
            return
        links = read_links(self.links)
        pairs = list(super().train_examples())
        if len(links) != len(pairs):
            raise InputError(
                f"{self.links} has {len(links)} lines, the training pairs are "
                f"{len(pairs)}; expected equally many"
            )
        for number, (pair, pair_links) in enumerate(zip(pairs, links, strict=True), 1):
            words = len(pair.source.split()), len(pair.target.split())
            check_inside(f"{self.links}:{number}", pair_links, words)
            yield replace(pair, links=pair_links)

    def group(self, example: Pair) -> str:
        """Return the source, since a source with several targets stays in one set."""
        return example.source


@dataclass(frozen=True, kw_only=True)
class Table(TableFiles[Pair]):
    """A table for each set, or a folder or a pattern of several.

    Without `valid`, rows of the training file are held out; those of one source stay
    together.

    Attributes:
        source: The column of the source, or its number from 1.
        target: The column of the target, or its number from 1.
    """

    kind: Literal["table"] = "table"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    source: str | int = "source"
    target: str | int = "target"

    recognised = ("table", "folder of tables")
    example_type = Pair
    noun = "pairs"
    expected = "a table with a column for each side, as --set data.train=FILE"

    def __post_init__(self) -> None:
        paths = [path for path in (self.train, self.valid, self.test) if path]
        for path in paths:
            # A text is a table by its lines, and may be gone when a run is loaded.
            if suffix(path) not in TEXTS:
                kind(path)
        self.check_columns(self.columns, *paths)

    @property
    def columns(self) -> Columns:
        """The columns of source and target."""
        return {"source": self.source, "target": self.target}

    def parse(self, row: Row) -> Pair:
        """Return the pair of a row."""
        source, target = row.fields
        return Pair(source, target, row.place, alternatives=row.alternatives)

    def group(self, example: Pair) -> str:
        """Return the source, since a source with several targets stays in one set."""
        return example.source


LanguageFiles = str | tuple[str, ...]
"""A table, or files of the source and each language; an empty tuple is none."""
PairsByLanguage = Mapping[str, Sequence[Pair]]


@dataclass(frozen=True, kw_only=True)
class Multiparallel(HeldOut, Tabular):
    """Texts in several languages: for each set files aligned by line, or a table.

    A language is named by its column: by the last part of a key in JSON, or by its
    number. Without `valid`, rows of the training set are held out.
    """

    kind: Literal["multiparallel"] = "multiparallel"
    languages: tuple[str | int, ...]
    """The columns of a table, by name or number from 1, or names for the files."""
    train: LanguageFiles = ()
    """A table, or the source's file and one for each of `languages` in their order."""
    valid: LanguageFiles = ()
    test: LanguageFiles = ()
    source: str | int = "source"
    """The column of the source in a table, or its number from 1."""

    def __post_init__(self) -> None:
        names = self.names
        are_words = all(re.fullmatch(r"[^\W_][\w-]*", name) for name in names)
        sets = [files for files in (self.train, self.valid, self.test) if files]
        forms = {isinstance(files, tuple) and len(files) for files in sets}
        advice = ""
        if not names or len(set(names)) < len(names) or not are_words:
            advice = "name each language once, by letters, digits, - and _"
        elif forms not in (set(), {False}, {len(names) + 1}):
            advice = (
                f"give tables, or {len(names) + 1} files each: source and languages"
            )
        elif self.skip_bad:
            advice = "correct bad rows; skip_bad would leave them out of some only"
        if advice:
            listed = ", ".join(names) or "none"
            raise InputError(f"multiparallel: languages are {listed}; {advice}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the languages."""
        return tuple(str(name).rpartition(".")[2] for name in self.languages)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of a table."""
        targets = {f"languages[{n}]": name for n, name in enumerate(self.languages)}
        return {"source": self.source} | targets

    def load(self) -> dict[str, Splits[Pair]]:
        """Read pairs by language, all with the same sources.

        Raises:
            InputError: A record is invalid; it names file and line.
        """
        if not self.train:
            raise InputError(
                "data.train is not given; expected a table, or files as --set "
                f"'data.train=[{', '.join(['SOURCE', *map(str.upper, self.names)])}]'"
            )
        if isinstance(self.train, str):  # check the columns under their own keys
            next(self.stream_rows(self.train, self.columns))
        return {name: self.alone(name).load() for name in self.names}

    def tests(self) -> PairsByLanguage:
        """Read the test pairs by language, empty without a test set."""
        return {n: self.alone(n).tests() for n in self.names} if self.test else {}

    def read(self, files: Sequence[Path | Records]) -> PairsByLanguage:
        """Read the pairs by language of a table, or of files of all sides."""
        paths = tuple(map(str, files))
        test = paths[0] if len(paths) == 1 else paths
        return replace(self, train=(), valid=(), test=test).tests()

    def alone(self, language: str) -> Parallel | Table:
        """Return the data section of one language."""
        index = self.names.index(language)
        is_table = isinstance(self.train or self.test, str)
        sets: dict[str, Any] = {}
        for key in ("train", "valid", "test"):
            if files := getattr(self, key):
                sets[key] = files if is_table else (files[0], files[index + 1])
        sets |= {"held_out": self.held_out, "split_seed": self.split_seed}
        if not is_table:
            return Parallel(**sets)
        sets |= {"delimiter": self.delimiter, "quoting": self.quoting}
        return Table(source=self.source, target=self.languages[index], **sets)


def as_pair(question: Question) -> Pair:
    """Return a question and its context as the source of its distinct answers."""
    answers = dict.fromkeys(join_lines(answer.text) for answer in question.answers)
    target, *alternatives = answers
    source = f"{join_lines(question.question)} {join_lines(question.context)}"
    return Pair(source, target, question.place, alternatives=tuple(alternatives))


@dataclass(frozen=True, kw_only=True)
class Squad(QuestionFiles[Pair]):
    """Questions about paragraphs, as pairs.

    The source is the question and its paragraph; several answers are all correct.
    """

    kind: Literal["squad"] = "squad"

    convert = staticmethod(as_pair)


SAMPLE = 500
MORE_WORDS = 2.0
"""How much more of a side's words the other training side has, if sides are swapped."""
LEAST_WORDS = 0.3
"""The least share of the words of a swapped side that the other training side has."""
FEWEST = 20
"""The fewest pairs of a set that are compared."""


def make_pairs(pairs: Sequence[Pair | tuple[str, str]]) -> list[Pair]:
    """Return pairs, made from tuples of a source and its target where they are some."""
    return [
        pair if isinstance(pair, Pair) else Pair(*pair, f"pair {number}")
        for number, pair in enumerate(pairs, 1)
    ]


def are_sides_swapped(train: Sequence[Pair], pairs: Sequence[Pair]) -> bool:
    """Return whether sources have the words of training targets, and targets of sources."""
    if min(len(train), len(pairs)) < FEWEST:
        return False
    sources, targets = _sample_words(train)
    other_sources, other_targets = _sample_words(pairs)
    same = _share(other_sources, sources), _share(other_targets, targets)
    crossed = _share(other_sources, targets), _share(other_targets, sources)
    return all(
        cross > max(LEAST_WORDS, MORE_WORDS * share)
        for share, cross in zip(same, crossed, strict=True)
    )


def _sample_words(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    """Return the words of sources and targets; without blanks their characters."""
    sides: tuple[list[str], list[str]] = [], []
    for pair in pairs[:: max(1, len(pairs) // SAMPLE)]:
        for words, text in zip(sides, (pair.source, pair.target), strict=True):
            parts = text.lower().split()
            words += parts if len(parts) > 1 else text.lower()
    return sides


def _share(words: Sequence[str], reference: Sequence[str]) -> float:
    """Return the share of words that occur among reference words."""
    vocabulary = set(reference)
    return sum(word in vocabulary for word in words) / len(words)
