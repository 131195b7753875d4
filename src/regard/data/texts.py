"""Running text and conversations: the data sections of language models and dialogues."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, NonNegativeInt

from regard.config.file_kinds import TABLES, is_chat, suffix
from regard.data.cache import cache_value
from regard.data.data_files import DataFiles, select
from regard.data.files import Line, iterate_lines, list_set_files
from regard.data.pairs import Pair
from regard.data.records import ITEM, read_json_lines
from regard.data.splits import Tail, too_few
from regard.data.tables import Tabular
from regard.errors import InputError

Section = TypeVar("Section", bound=Any)
TURN = "\N{PILCROW SIGN}"
"""Follows each turn of a source, so that no source is empty."""


@dataclass(frozen=True, kw_only=True)
class RunningText(DataFiles[str]):
    """Text files for each set, or the lines of a column of tables.

    An imported run names no files for training. With the `unit` "line", each line, blank ones
    too, is a text with its own end; with "file", the whole file is. Without `valid`, the
    last `held_out` of the training files' characters, cut at a line, are the validation
    set.

    Attributes:
        unit: What a text is: a line or a file.
        text: The column of a table that has the text, or its number from 1.
    """

    kind: Literal["text"] = "text"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    unit: Literal["line", "file"] = "line"
    text: str | int | None = None
    held_out: Tail = 0.1

    recognised = ("file",)
    example_type = str
    expected = "a text file, as --set data.train=FILE"

    def examples(self, path: str) -> Iterator[str]:
        """Yield the texts of files. Raises InputError as `load` does."""
        for file in list_set_files(path):
            lines = lines_of(file, self.text)
            yield from lines if self.unit == "line" else _join(list(lines))

    def read_train(self) -> Sequence[str]:
        """Read the training texts; only lines are cached on disk."""
        if self.unit == "file" and self.train is not None:
            return list(self.train_examples())
        return super().read_train()

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


def _join(lines: list[str]) -> list[str]:
    """Join the lines of a file to one text; without lines, nothing."""
    return ["\n".join(lines) + "\n"] if lines else []


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
        raise too_few(f"{path}: {len(lines)} lines")
    return start


def with_column(data: Section, name: str | None) -> Section:
    """Return a section whose tables have the texts in another column."""
    if name is None:
        return data
    return replace(data, text=int(name) if name.isdecimal() else name)


def lines_of(
    file: str, column: str | int | None, *, apart: bool = False
) -> Iterator[str]:
    """Yield the lines of a text file, or of the column of a table.

    Args:
        column: The column of a table.
        apart: Whether an empty line ends each value of the column.

    Raises:
        InputError: All lines are blank, or a table has no `column`, so that its commas
            and braces would be read.
    """
    if suffix(file) not in TABLES:
        yield from (line.text for line in iterate_lines(file))
        return
    if is_chat(file) and column in (None, "messages", "conversations"):
        raise InputError(
            f"{file}: has chats, which `regard train dialogue` reads; a language model "
            "reads running text"
        )
    if column is None:
        raise InputError(
            f"{file}: a table, and a language model reads running text; name the column "
            "that has it by --set data.text=COLUMN"
        )
    has_text = False
    for row in Tabular().stream_rows(file, {"text": column}, lists=(column,)):
        has_text = has_text or bool(row.fields[0].strip())
        for item in row.fields[0].split(ITEM):
            yield from item.splitlines()
        if apart:
            yield ""
    if not has_text:
        raise InputError(f"{file}: all lines of column {column!r} are blank")


@dataclass(frozen=True)
class Turn:
    """A turn on one line, with its `file:line`; `first` begins a conversation."""

    text: str
    place: str
    first: bool


@dataclass(frozen=True, kw_only=True)
class Dialogue(DataFiles[Pair]):
    """Text files of conversations for each set, optionally compressed.

    One empty line separates turns, two or more between conversations. A first line
    that ends in a colon names the speaker and is skipped. In .jsonl each line is a
    conversation with the `messages` of chat models. Without `valid`, the last
    `held_out` of the training replies are the validation set.

    Attributes:
        turns: Number of turns before a reply that form its source.
        longest: Maximum number of words of a turn. A longer one is not a reply, and as a
            source it is cut to its last words.
    """

    kind: Literal["dialogue"] = "dialogue"
    train: str = field()  # pyright: ignore[reportGeneralTypeIssues]
    valid: str | None = None
    test: str | None = None
    turns: NonNegativeInt = 2
    longest: Annotated[int, Field(ge=1)] = 50
    held_out: Tail = 0.1

    recognised = ("chat",)
    example_type = Pair

    def choose_valid(
        self, train: Sequence[Pair]
    ) -> tuple[Sequence[Pair], Sequence[Pair]]:
        """Hold out the last replies."""
        count = len(train) - round(self.held_out * len(train))
        if not 0 < count < len(train):
            raise too_few(f"{self.train}: {len(train)} replies")
        return select(train, range(count), f"first {count}"), list(train[count:])

    def examples(self, path: str) -> Iterator[Pair]:
        """Yield the replies of files. Raises InputError for a file without any."""
        for file in list_set_files(path):
            pairs = replies(read_turns(file), self.turns, self.longest)
            first = next(pairs, None)
            if first is None:
                raise InputError(
                    f"{file}: has no reply of at most {self.longest} words; put a blank "
                    "line between turns"
                )
            yield first
            yield from pairs


def read_turns(path: str | Path) -> Iterator[Turn]:
    """Yield the turns of a file of conversations, without speakers and empty turns.

    Raises:
        InputError: The file is damaged or empty.
    """
    if is_chat(str(path)):
        yield from read_messages(path)
        return
    block: list[str] = []
    first = True
    blanks = 0
    begin = 0
    for number, _, line in chain(iterate_lines(path), [Line(0, 0, "")]):
        if line.strip():
            first = first or blanks > 1
            blanks = 0
            if not block:
                begin = number
            block.append(line)
            continue
        blanks += 1
        if block:
            has_speaker = block[0].rstrip().endswith(":")
            text = " ".join(" ".join(block[has_speaker:]).split())
            if text:
                yield Turn(text, f"{path}:{begin + has_speaker}", first)
                first = False
        block = []


def read_messages(path: str | Path) -> Iterator[Turn]:
    """Yield the turns of a file with the messages of a chat in each line.

    Messages of the role `system` are left out.

    Raises:
        InputError: A line has no messages.
    """
    for record in read_json_lines(path):
        place = f"{path}:{record.number}"
        match record.values:
            case {"messages": [*messages]} | {"conversations": [*messages]}:
                first = True
            case _:
                raise InputError(f"{place}: {record.fault or 'has no messages'}")
        for message in messages:
            match message:
                case {"role": "system"} | {"from": "system"}:
                    continue
                case {"content": str(text)} | {"value": str(text)} if text.strip():
                    yield Turn(" ".join(text.split()), place, first)
                    first = False
                case _:
                    raise InputError(
                        f"{place}: a message has no text; expected its 'content'"
                    )


def replies(turns: Iterable[Turn], count: int, longest: int) -> Iterator[Pair]:
    """Yield the last `count` turns before each turn, and this turn as their reply.

    The first turn of a conversation and those of more than `longest` words are no
    replies.
    """
    utterances: list[str] = []
    for turn in turns:
        utterances = [] if turn.first else utterances
        if utterances and len(turn.text.split()) <= longest:
            yield Pair(context(utterances, count, longest), turn.text, turn.place)
        utterances.append(turn.text)


def context(utterances: Sequence[str], count: int, longest: int) -> str:
    """Return the last turns as a source: the last words of each, followed by `TURN`."""
    last = utterances[len(utterances) - min(count, len(utterances)) :]
    parts = [f"{' '.join(turn.split()[-longest:])} {TURN}" for turn in last]
    return " ".join(parts or [TURN])
