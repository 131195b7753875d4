"""Running text: the `data:` section of run files for language models."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from regard.config.recognition import TABLES, Kind, first_lines, suffix
from regard.config.yaml_nodes import setting
from regard.data.headers import delimiter_of
from regard.data.lines import Line, placed_lines, with_text
from regard.data.mixture import Mixed, repeated
from regard.data.records import ITEM
from regard.data.set_files import set_files
from regard.data.splits import Splits
from regard.data.stored import StoredTexts, is_large, remembered, stored
from regard.data.tables import Tabular
from regard.errors import InputError

Unit = Literal["line", "file"]
Section = TypeVar("Section", bound=Any)


@dataclass(frozen=True, kw_only=True)
class RunningText(Mixed):
    """One text file per set, or a folder or a pattern of several, optionally .gz or .zst; an imported run has none for
    training. With the `unit` "line", each line, blank ones too, is a text with its own end; with "file", the whole file
    is. Without `valid`, the last `held_out` of the training files' characters, cut at a line, are the validation set. A
    share of `mixture` below 1 reads a file's first lines, and a mixture needs `valid`. Of tables the lines of
    the column `text` are read."""

    kind: Literal["text"] = "text"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    unit: Unit = "line"
    held_out: float = 0.1
    text: str | int | None = None

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise InputError(
                f"text: held_out is {self.held_out}; expected a share above 0 and below 1"
            )
        if self.mixture and self.train is not None and self.valid is None:
            raise InputError(
                "text: data.mixture needs a validation set that no file of it repeats; give data.valid"
            )

    def load(self) -> Splits[str]:
        """Read all files. Raises InputError naming file and line at fault."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a text file, as --set data.train=FILE"
            )
        if self.unit == "line" and is_large([self.train]):
            return self._stored(self.train)
        if self.valid is not None:
            parts = (
                self.texts(self._first(file, share))
                for file, share in self._mixed(self.train)
            )
            return Splits(
                [text for part in parts for text in part],
                self.read(self.valid),
                self.tests(),
            )
        lines = [
            line for file in set_files(self.train) for line in lines_of(file, self.text)
        ]
        train, valid = _cut(lines, self.held_out, self.train)
        return Splits(self.texts(train), self.texts(valid), self.tests())

    def _stored(self, path: str) -> Splits[str]:
        """The sets, with the training texts on disk."""
        files = self._mixed(path)
        mixed = f" {sorted(self.mixture.items())}" if self.mixture else ""
        column = "" if self.text is None else f" of {self.text!r}"
        every = stored(
            StoredTexts,
            [path],
            f"lines{column}{mixed}",
            lambda: (
                text for file, share in files for text in self._streamed(file, share)
            ),
            lambda: sum(round(share * self._count(file)) for file, share in files),
        )
        if self.valid is not None:
            return Splits(every, self.read(self.valid), self.tests())
        place = remembered(
            every,
            f"held out {self.held_out}",
            lambda: _place(every, self.held_out, path),
        )
        return Splits(
            every.part(np.arange(place), f"before {place}"), every[place:], self.tests()
        )

    def tests(self) -> list[str]:
        """The texts of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[str]:
        """Read the texts of other files. Raises InputError as `load` does."""
        return [
            text
            for file in set_files(path)
            for text in self.texts(list(lines_of(file, self.text)))
        ]

    def texts(self, lines: list[str]) -> list[str]:
        """Lines as texts by the unit."""
        return lines if self.unit == "line" or not lines else ["\n".join(lines) + "\n"]

    def _mixed(self, path: str) -> list[tuple[str, float]]:
        """The files of a path, each with the share of its lines that are read at once."""
        return list(repeated(set_files(path), self.mixture))

    def _first(self, file: str, share: float) -> list[str]:
        lines = list(lines_of(file, self.text))
        return lines[: round(share * len(lines))]

    def _streamed(self, file: str, share: float) -> Iterator[str]:
        """The first lines of a file, one in memory at a time."""
        lines = lines_of(file, self.text)
        return lines if share == 1 else islice(lines, round(share * self._count(file)))

    def _count(self, file: str) -> int:
        return sum(1 for _ in lines_of(file, self.text))


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
        placed_lines(file)
        if suffix(file) not in TABLES
        else _lines_of_column(file, column, apart)
    )
    return (line.text for line in with_text(file, lines))


def _lines_of_column(
    file: str, column: str | int | None, apart: bool
) -> Iterator[Line]:
    if column is None:
        raise InputError(
            f"{file}: a table, and a language model reads running text; name the column that has it, as by "
            + setting("data.text", _longest(file))
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
    lines = first_lines(file)[:2]
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
    return max(texts, key=lambda each: len(texts[each]), default="COLUMN")


def _record(lines: list[str], kind: str) -> dict[str, str]:
    """The first record of the first lines of a .csv or .tsv file, by its header."""
    if kind not in ("csv", "tsv"):
        return {}
    header, first = csv.reader(lines, delimiter=delimiter_of(lines[0]))
    return dict(zip(header, first, strict=True))


def _cut(lines: list[str], share: float, path: str) -> tuple[list[str], list[str]]:
    """The lines before and after the start of the last `share` of the characters. Raises InputError if one is blank."""
    place = _place(lines, share, path)
    return lines[:place], lines[place:]


def _place(lines: Sequence[str], share: float, path: str) -> int:
    """The first line of the last `share` of the characters. Raises InputError if the lines before or after it are all
    blank."""
    size, held = share * sum(len(line) + 1 for line in lines), 0
    place = len(lines)
    while place and held < size:
        place -= 1
        held += len(lines[place]) + 1
    if not all(
        any(lines[number].strip() for number in part)
        for part in (range(place), range(place, len(lines)))
    ):
        raise InputError(
            f"{path}: {len(lines)} lines are too few to hold some out; give data.valid"
        )
    return place
