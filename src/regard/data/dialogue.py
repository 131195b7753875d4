"""Conversations, as pairs of context and reply: the `data:` section of run files, and its reader."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from regard.data.lines import placed_lines, with_text
from regard.data.pair import Pair
from regard.data.set_files import set_files
from regard.data.splits import Splits
from regard.data.stored import StoredPairs, is_large, stored
from regard.errors import InputError

TURN = "\N{PILCROW SIGN}"
"""Follows each turn of a source, so that no source is empty."""


@dataclass(frozen=True)
class Turn:
    """One turn on one line. `first`: it begins a conversation. `place`: its `file:line`."""

    text: str
    place: str
    first: bool


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """One text file of conversations per set, or a folder or a pattern of several, optionally .gz or .zst: one blank
    line between turns, two or more between conversations. A first line that ends in a colon names the speaker and is
    skipped.

    Each turn is the reply to the last `turns` turns (0: to nothing). A turn of more than `longest` words is no reply,
    and as a source is cut to its last words. Without `valid`, the last `held_out` of the training replies are the
    validation set."""

    kind: Literal["dialogue"] = "dialogue"
    train: str
    valid: str | None = None
    test: str | None = None
    turns: int = 2
    longest: int = 50
    held_out: float = 0.1

    def __post_init__(self) -> None:
        if self.turns < 0 or self.longest < 1:
            raise InputError(
                f"dialogue: turns is {self.turns} and longest {self.longest}; expected at least 0 and at least 1"
            )
        if not 0 < self.held_out < 1:
            raise InputError(
                f"dialogue: held_out is {self.held_out}; expected a share above 0 and below 1"
            )

    def load(self) -> Splits[Pair]:
        """Read all files; large ones for training are kept on disk. Raises InputError naming file and line at fault."""
        test = self.read(self.test) if self.test else ()
        train = self._stored() if is_large([self.train]) else self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), test)
        held = round(self.held_out * len(train))
        if not 0 < held < len(train):
            raise InputError(
                f"{self.train}: {len(train)} replies are too few to hold some out; give data.valid"
            )
        count = len(train) - held
        rest = (
            train.part(np.arange(count), f"first {count}")
            if isinstance(train, StoredPairs)
            else train[:count]
        )
        return Splits(rest, train[count:], test)

    def read(self, path: str) -> list[Pair]:
        """Read the replies of a path. Raises InputError for a file that cannot be read or has none."""
        return list(self._replies(path))

    def _stored(self) -> StoredPairs:
        settings = f"dialogue {self.turns} {self.longest}"
        return stored(
            StoredPairs,
            [self.train],
            settings,
            lambda: self._replies(self.train),
            lambda: 0,
        )

    def _replies(self, path: str) -> Iterator[Pair]:
        """The replies of the files of a path, one in memory at a time. Raises InputError as `read` does."""
        for file in set_files(path):
            found = replies(read_turns(file), self.turns, self.longest)
            first = next(found, None)
            if first is None:
                turns = sum(1 for _ in read_turns(file))
                raise InputError(
                    f"{file}: has {turns} turns, and no reply of at most {self.longest} words among them; put a blank "
                    "line between turns"
                )
            yield first
            yield from found


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
    for number, _, text in with_text(path, placed_lines(path)):
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
