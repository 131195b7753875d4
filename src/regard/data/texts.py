"""Running text: the `data:` section of run files for language models."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import numpy as np

from regard.config.recognition import TABLES, Kind, first_lines, suffix
from regard.data.lines import count_lines, numbered_lines, read_lines
from regard.data.mixture import Mixed, repeated
from regard.data.opening import files_of
from regard.data.splits import Splits
from regard.data.stored import StoredTexts, is_large, remembered, stored
from regard.errors import InputError

Unit = Literal["line", "file"]


@dataclass(frozen=True, kw_only=True)
class RunningText(Mixed):
    """One text file per set, or a folder or a pattern of several, optionally .gz or .zst; an imported run has none for
    training. With the `unit` "line", each line, blank ones too, is a text with its own end; with "file", the whole file
    is. Without `valid`, the last `held_out` of the training files' characters, cut at a line, are the validation set. A
    share of `mixture` below 1 reads a file's first lines, and a mixture needs `valid`."""

    kind: Literal["text"] = "text"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    unit: Unit = "line"
    held_out: float = 0.1

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise InputError(f"text: held_out is {self.held_out}; expected a share above 0 and below 1")
        if self.mixture and self.train is not None and self.valid is None:
            raise InputError("text: data.mixture needs a validation set that no file of it repeats; give data.valid")

    def load(self) -> Splits[str]:
        """Read all files. Raises InputError naming file and line at fault."""
        if self.train is None:
            raise InputError("data.train is not given; expected a text file, as --set data.train=FILE")
        if self.unit == "line" and is_large([self.train]):
            return self._stored(self.train)
        if self.valid is not None:
            parts = (self.texts(_first(file, share)) for file, share in repeated(_files(self.train), self.mixture))
            return Splits([text for part in parts for text in part], self.read(self.valid), self.tests())
        train, valid = _cut(_lines(self.train), self.held_out, self.train)
        return Splits(self.texts(train), self.texts(valid), self.tests())

    def _stored(self, path: str) -> Splits[str]:
        """The sets, with the training texts on disk."""
        files = repeated(_files(path), self.mixture)
        mixed = f" {sorted(self.mixture.items())}" if self.mixture else ""
        every = stored(
            StoredTexts,
            [path],
            f"lines{mixed}",
            lambda: (text for file, share in files for text in _streamed(file, share)),
            lambda: sum(round(share * count_lines(file)) for file, share in files),
        )
        if self.valid is not None:
            return Splits(every, self.read(self.valid), self.tests())
        place = remembered(every, f"held out {self.held_out}", lambda: _place(every, self.held_out, path))
        return Splits(every.part(np.arange(place), f"before {place}"), every[place:], self.tests())

    def tests(self) -> list[str]:
        """The texts of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[str]:
        """Read the texts of other files. Raises InputError as `load` does."""
        return [text for file in _files(path) for text in self.texts(read_lines(file))]

    def texts(self, lines: list[str]) -> list[str]:
        """Lines as texts by the unit."""
        return lines if self.unit == "line" or not lines else ["\n".join(lines) + "\n"]


def check_running(file: str) -> None:
    """Raises InputError for a table, whose braces and commas would be read as text."""
    if (kind := suffix(file)) in TABLES:
        raise InputError(
            f"{file}: a table, and a language model reads running text; write one column to a .txt file"
            f"{_by_jq(file) if kind == 'jsonl' else ''}"
        )


def _files(path: str) -> list[str]:
    """The files that a path names. Raises InputError as `check_running` does."""
    files = files_of(path)
    for file in files:
        check_running(file)
    return files


def _by_jq(file: str) -> str:
    """The command that writes the longest text of the first record of JSON lines."""
    try:
        record = json.loads(first_lines(file)[0])
    except (ValueError, IndexError):
        return ""
    texts = {key: text for key, text in record.items() if isinstance(text, str)} if isinstance(record, Mapping) else {}
    key = max(texts, key=lambda each: len(texts[each]), default="KEY")
    path = f".{key}" if key.isidentifier() else f"'.[\"{key}\"]'"
    return f", as by `jq -r {path} {file} > {file.removesuffix('.jsonl')}.txt`"


def _lines(path: str) -> list[str]:
    """The lines of the files that a path names, one file after the other."""
    return [line for file in _files(path) for line in read_lines(file)]


def _first(file: str, share: float) -> list[str]:
    lines = read_lines(file)
    return lines[: round(share * len(lines))]


def _streamed(file: str, share: float) -> Iterator[str]:
    """The first lines of a file, one in memory at a time."""
    lines = (text for _, text in numbered_lines(file))
    return lines if share == 1 else islice(lines, round(share * count_lines(file)))


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
    if not all(any(lines[number].strip() for number in part) for part in (range(place), range(place, len(lines)))):
        raise InputError(f"{path}: {len(lines)} lines are too few to hold some out; give data.valid")
    return place
