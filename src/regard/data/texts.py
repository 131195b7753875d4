"""Running text and conversations: the data sections of language models and dialogues."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from regard.config.file_kinds import TABLES, Kind, read_first_lines, suffix
from regard.config.yaml_tree import format_setting
from regard.data.cache import CachedSet, cache_value
from regard.data.data_files import DataFiles, Mixed, repeat_files, select
from regard.data.delimited import delimiter_of
from regard.data.files import Line, iterate_lines, list_set_files, require_text
from regard.data.pairs import Pair
from regard.data.records import ITEM
from regard.data.splits import too_few
from regard.data.tables import Tabular
from regard.errors import InputError

Unit = Literal["line", "file"]
Section = TypeVar("Section", bound=Any)


@dataclass(frozen=True, kw_only=True)
class RunningText(Mixed[str]):
    """Text files for each set, or the lines of a column of tables.

    An imported run has none for training. With the `unit` "line", each line, blank ones
    too, is a text with its own end; with "file", the whole file is. Without `valid`, the
    last `held_out` of the training files' characters, cut at a line, are the validation
    set. A share of `mixture` below 1 reads a file's first lines, and a mixture needs
    `valid`.

    unit: What a text is: a line or a file.
    text: The column of a table that has the text, or its number from 1.
    """

    kind: Literal["text"] = "text"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    unit: Unit = "line"
    text: str | int | None = None

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)
    example_type = str
    expected = "a text file, as --set data.train=FILE"

    def __post_init__(self) -> None:
        check_tail(self.held_out, "text")
        if self.mixture and self.train is not None and self.valid is None:
            raise InputError(
                "text: data.mixture needs a validation set that no file of it repeats; "
                "give data.valid"
            )

    @property
    def content_settings(self) -> str:
        """The settings that decide what is read from a file, with the mixture."""
        return f"{super().content_settings} {sorted(self.mixture.items())}"

    def examples(self, path: str) -> Iterator[str]:
        """Yield the texts of files. Raises InputError as `load` does."""
        for file in list_set_files(path):
            yield from self.texts(file, 1.0)

    def read_train(self) -> Sequence[tuple[str, str]] | CachedSet[str]:
        """Read the training texts; only lines are cached on disk."""
        if self.unit == "file" and self.train is not None:
            return list(self.entries(self.train))
        return super().read_train()

    def entries(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the training texts, of files as often as the mixture says."""
        for file, share in repeat_files(list_set_files(path), self.mixture):
            for text in self.texts(file, share):
                yield "", text

    def texts(self, file: str, share: float) -> Iterator[str]:
        """Yield the texts of the first lines of a file."""
        lines = lines_of(file, self.text)
        if share < 1:
            lines = islice(lines, round(share * self._count_lines(file)))
        return lines if self.unit == "line" else iter(_join(list(lines)))

    def mix(self, examples: Sequence[str]) -> Sequence[str]:
        """Return the training texts, which were read as the mixture says."""
        return examples

    def choose_valid(self, train: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Hold out the last lines of the training files."""
        if self.unit == "file":
            lines = [line for text in train for line in text[:-1].split("\n")]
            start = _start_of_tail(lines, self.held_out, str(self.train))
            return _join(lines[:start]), _join(lines[start:])
        start = cache_value(
            train,
            f"held out {self.held_out}",
            lambda: _start_of_tail(train, self.held_out, str(self.train)),
        )
        return select(train, range(start), f"before {start}"), list(train[start:])

    def count(self) -> int:
        """Return about how many training texts there are."""
        if self.unit == "file" or self.train is None:
            return 0
        files = repeat_files(list_set_files(self.train), self.mixture)
        return sum(round(share * self._count_lines(file)) for file, share in files)

    def _count_lines(self, file: str) -> int:
        return sum(1 for _ in lines_of(file, self.text))


def _join(lines: list[str]) -> list[str]:
    """Join the lines of a file to one text; no lines are no text."""
    return ["\n".join(lines) + "\n"] if lines else []


def check_tail(held_out: float, kind: str) -> None:
    """Raise InputError for a share that cannot be held out at the end of a file."""
    if not 0 < held_out < 1:
        raise InputError(
            f"{kind}: held_out is {held_out}; expected a share above 0 and below 1"
        )


def with_column(data: Section, name: str | None) -> Section:
    """A `data:` section of texts whose tables have them in another column, a name or a number from 1."""
    return (
        data
        if name is None
        else replace(data, text=int(name) if name.isdecimal() else name)
    )


def lines_of(
    file: str, column: str | int | None, *, apart: bool = False
) -> Iterator[str]:
    """The lines of a text file, or of the column of a table, one in memory at a time; with `apart`, a blank line ends
    each value of the column. Raises InputError for a file of blank lines only, and for a table without `column`, whose
    commas and braces would be read."""
    lines = (
        iterate_lines(file)
        if suffix(file) not in TABLES
        else _lines_of_column(file, column, apart)
    )
    return (line.text for line in require_text(file, lines))


def _lines_of_column(
    file: str, column: str | int | None, apart: bool
) -> Iterator[Line]:
    if column is None:
        raise InputError(
            f"{file}: a table, and a language model reads running text; name the column that has it, as by "
            + format_setting("data.text", _longest(file))
        )
    rows = Tabular().streamed(file, {"text": column}, lists=(column,))
    for number, row in enumerate(rows, 1):
        texts = [
            line for item in row.fields[0].split(ITEM) for line in item.splitlines()
        ]
        yield from (
            Line(number, 0, text) for text in (*texts, *([""] if apart else []))
        )


def _longest(file: str) -> str:
    """The name of the column with the longest text in the first record of JSON lines or of a table with a header."""
    lines = read_first_lines(file)[:2]
    try:
        record = (
            json.loads(lines[0])
            if suffix(file) == "jsonl"
            else _record(lines, suffix(file))
        )
    except (ValueError, IndexError, csv.Error):
        return "COLUMN"
    texts = (
        {key: text for key, text in record.items() if isinstance(text, str)}
        if isinstance(record, Mapping)
        else {}
    )
    return max(texts, key=lambda item: len(texts[item]), default="COLUMN")


def _record(lines: list[str], kind: str) -> dict[str, str]:
    """The first record of the first lines of a .csv or .tsv file, by its header."""
    if kind not in ("csv", "tsv"):
        return {}
    header, first = csv.reader(lines, delimiter=delimiter_of(lines[0]))
    return dict(zip(header, first, strict=True))


def _start_of_tail(lines: Sequence[str], share: float, path: str) -> int:
    """Return the first line of the last `share` of the characters.

    Raises:
        InputError: The lines before or after it are all blank.
    """
    size = share * sum(len(line) + 1 for line in lines)
    tail = 0
    start = len(lines)
    while start and tail < size:
        start -= 1
        tail += len(lines[start]) + 1
    parts = range(start), range(start, len(lines))
    if not all(any(lines[row].strip() for row in part) for part in parts):
        raise InputError(
            f"{path}: {len(lines)} lines are too few to hold some out; give data.valid"
        )
    return start


TURN = "\N{PILCROW SIGN}"
"""Follows each turn of a source, so that no source is empty."""


@dataclass(frozen=True)
class Turn:
    """One turn on one line. `first`: it begins a conversation. `place`: its `file:line`."""

    text: str
    place: str
    first: bool


@dataclass(frozen=True, kw_only=True)
class Dialogue(DataFiles[Pair]):
    """Text files of conversations for each set, optionally .gz or .zst.

    One blank line stands between turns, two or more between conversations. A first line
    that ends in a colon names the speaker and is skipped. Without `valid`, the last
    `held_out` of the training replies are the validation set.

    turns: Each turn is the reply to so many turns before it; with 0 to nothing.
    longest: A turn of more words is no reply, and as a source is cut to its last words.
    """

    kind: Literal["dialogue"] = "dialogue"
    train: str = field()  # pyright: ignore[reportGeneralTypeIssues]
    valid: str | None = None
    test: str | None = None
    turns: int = 2
    longest: int = 50

    example_type = Pair

    def __post_init__(self) -> None:
        if self.turns < 0 or self.longest < 1:
            raise InputError(
                f"dialogue: turns is {self.turns} and longest {self.longest}; "
                "expected at least 0 and at least 1"
            )
        check_tail(self.held_out, "dialogue")

    def choose_valid(
        self, train: Sequence[Pair]
    ) -> tuple[Sequence[Pair], Sequence[Pair]]:
        """Hold out the last replies."""
        held_out = round(self.held_out * len(train))
        if not 0 < held_out < len(train):
            raise too_few(f"{self.train}: {len(train)} replies")
        count = len(train) - held_out
        return select(train, range(count), f"first {count}"), list(train[count:])

    def examples(self, path: str) -> Iterator[Pair]:
        """Yield the replies of files. Raises InputError for a file that has none."""
        for file in list_set_files(path):
            pairs = replies(read_turns(file), self.turns, self.longest)
            first = next(pairs, None)
            if first is None:
                turns = sum(1 for _ in read_turns(file))
                raise InputError(
                    f"{file}: has {turns} turns, and no reply of at most "
                    f"{self.longest} words among them; put a blank line between turns"
                )
            yield first
            yield from pairs


def read_turns(path: str | Path) -> Iterator[Turn]:
    """The turns of a file of conversations, each on one line, one in memory at a time. Speakers and turns without words
    are skipped. Raises InputError for a file that cannot be read or is blank."""
    block: list[str] = []
    first, blanks = True, 0
    for number, line in _lines_and_end(path):
        if line.strip():
            first, blanks = first or blanks > 1, 0
            block.append(line)
            continue
        blanks += 1
        utterances = block[1:] if block and block[0].rstrip().endswith(":") else block
        text = " ".join(" ".join(utterances).split())
        if text:
            yield Turn(text, f"{path}:{number - len(utterances)}", first)
            first = False
        block = []


def _lines_and_end(path: str | Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file, and a blank one behind them."""
    number = 0
    for number, _, text in require_text(path, iterate_lines(path)):
        yield number, text
    yield number + 1, ""


def replies(turns: Iterable[Turn], count: int, longest: int) -> Iterator[Pair]:
    """Pairs of the last `count` turns and their reply, for each turn of at most `longest` words. The first turn of a
    conversation has no context and is skipped."""
    utterances: list[str] = []
    for turn in turns:
        utterances = [] if turn.first else utterances
        if utterances and len(turn.text.split()) <= longest:
            yield Pair(context(utterances, count, longest), turn.text, turn.place)
        utterances.append(turn.text)


def context(utterances: Sequence[str], count: int, longest: int) -> str:
    """The last `count` turns as a source: the last `longest` words of each, followed by `TURN`."""
    last = utterances[len(utterances) - min(count, len(utterances)) :]
    return " ".join(
        [f"{' '.join(turn.split()[-longest:])} {TURN}" for turn in last] or [TURN]
    )
