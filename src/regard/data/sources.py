"""The `data:` sections of run files that read pairs from files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from regard.data.dialogue import read_turns, replies
from regard.data.links import check_inside, read_links
from regard.data.pair import Pair
from regard.data.readers import read_pairs, read_parallel
from regard.data.splits import Splits
from regard.data.squad import read_squad
from regard.data.tables import kind
from regard.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Two text files per set, (source, target), aligned by line; an imported run has none for training. `skip_bad`
    skips pairs with a blank side. `links` is a file with the word alignment of the training pairs, one line of `i-j`
    links each, for guided training."""

    kind: Literal["parallel"] = "parallel"
    train: tuple[str, str] | None = None
    valid: tuple[str, str] | None = None
    test: tuple[str, str] | None = None
    skip_bad: bool = False
    links: str | None = None

    def __post_init__(self) -> None:
        if self.links and self.skip_bad:
            raise InputError("parallel: links go by line, so skip_bad must be false")

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and line at fault."""
        for name, paths in (("train", self.train), ("valid", self.valid)):
            if paths is None:
                raise InputError(
                    f"data.{name} is not given; expected two text files, as --set 'data.{name}=[SOURCE, TARGET]'"
                )
        train, valid, test = (
            read_parallel(*paths, skip_bad=self.skip_bad) if paths else ()
            for paths in (self.train, self.valid, self.test)
        )
        return Splits(_linked(train, self.links) if self.links else train, valid, test)


@dataclass(frozen=True, kw_only=True)
class Table:
    """One .tsv, .csv or .jsonl file per set, optionally .gz. `source` and `target` are column names, or numbers from
    1."""

    kind: Literal["table"] = "table"
    train: str
    valid: str
    test: str | None = None
    source: str | int = "source"
    target: str | int = "target"
    skip_bad: bool = False

    def __post_init__(self) -> None:
        numbered = isinstance(self.source, int)
        for path in (self.train, self.valid, *([] if self.test is None else [self.test])):
            if (kind(path) == "jsonl" and numbered) or isinstance(self.target, int) != numbered:
                raise InputError(
                    f"table: source {self.source!r} and target {self.target!r} must be two names, "
                    "or two column numbers of a .tsv or .csv file without a header"
                )

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and line at fault."""
        columns = self.source, self.target
        train, valid, test = (
            read_pairs(path, columns, skip_bad=self.skip_bad) if path else ()  # pyright: ignore[reportArgumentType]
            for path in (self.train, self.valid, self.test)
        )
        return Splits(train, valid, test)


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """One text file of conversations per set, optionally .gz: one blank line between turns, two or more between
    conversations. A first line that ends in a colon names the speaker and is skipped.

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
            raise InputError(f"dialogue: held_out is {self.held_out}; expected a share above 0 and below 1")

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and line at fault."""
        train, test = self.read(self.train), self.read(self.test) if self.test else ()
        if self.valid is not None:
            return Splits(train, self.read(self.valid), test)
        held = round(self.held_out * len(train))
        if not 0 < held < len(train):
            raise InputError(f"{self.train}: {len(train)} replies are too few to hold some out; give valid")
        return Splits(train[:-held], train[-held:], test)

    def read(self, path: str) -> list[Pair]:
        """Read the replies of a file. Raises InputError if it cannot be read or has none."""
        turns = read_turns(path)
        found = replies(turns, self.turns, self.longest)
        if not found:
            raise InputError(
                f"{path}: has {len(turns)} turns, and no reply of at most {self.longest} words among them; put a blank "
                "line between turns"
            )
        return found


@dataclass(frozen=True, kw_only=True)
class Squad:
    """Questions about paragraphs in SQuAD's files: published .json, or .jsonl with `context`, `question` and
    `answer_text`, optionally .gz. Several files are concatenated. The source is the question and its paragraph; several
    answers are all correct."""

    kind: Literal["squad"] = "squad"
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.train or not self.valid:
            raise InputError("squad: train and valid name no file; give at least one each")

    def load(self) -> Splits[Pair]:
        """Read all files. Raises InputError naming file and place at fault."""
        train, valid, test = (
            [pair for path in paths for pair in read_squad(path)] for paths in (self.train, self.valid, self.test)
        )
        return Splits(train, valid, test)


def _linked(pairs: Sequence[Pair], path: str) -> list[Pair]:
    found = read_links(path)
    if len(found) != len(pairs):
        raise InputError(f"{path} has {len(found)} lines, the training pairs are {len(pairs)}; expected equally many")
    for number, (pair, links) in enumerate(zip(pairs, found, strict=True), 1):
        check_inside(f"{path}:{number}", links, (len(pair.source.split()), len(pair.target.split())))
    return [replace(pair, links=links) for pair, links in zip(pairs, found, strict=True)]
