"""The `data:` section of a run file for masked language models: documents, from files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from regard.config.recognition import Kind
from regard.data.splits import Splits
from regard.data.texts import lines_of
from regard.errors import InputError

Document = tuple[str, ...]
"""The sentences or paragraphs of a document."""
P = TypeVar("P")
HEADING = re.compile(r"\s*=\s+[^=].*[^=]\s+=\s*")


@dataclass(frozen=True, kw_only=True)
class Documents:
    """A text file a set, optionally .gz, of one sentence or paragraph a line; none to train on in a run that was
    imported. Blank lines separate documents, or with `between: heading` lines ` = Heading = ` as in WikiText. Without
    `valid` the last `held_out` of the training documents, or of the lines of a single one, are for validation. Of a
    table each value of the column `text` is a document or several."""

    kind: Literal["documents"] = "documents"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    between: Literal["blank-line", "heading"] = "blank-line"
    held_out: float = 0.1
    text: str | int | None = None

    recognised: ClassVar[tuple[Kind, ...]] = ("file",)

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise InputError(
                f"documents: held_out is {self.held_out}; expected a share above 0 and below 1"
            )

    def load(self) -> Splits[Document]:
        """Read all files. Raises InputError with file and line for an invalid record."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a text file, as --set data.train=FILE"
            )
        train = self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), self.tests())
        if len(train) > 1:
            kept, held = self._parted(tuple(train))
            return Splits(list(kept), list(held), self.tests())
        ((lines, held),) = [self._parted(each) for each in train]
        return Splits([lines], [held], self.tests())

    def _parted(self, parts: tuple[P, ...]) -> tuple[tuple[P, ...], tuple[P, ...]]:
        """The parts to train on and the last ones, held out. Raises InputError for a single one."""
        kept = len(parts) - max(1, round(self.held_out * len(parts)))
        if kept < 1:
            raise InputError(
                f"{self.train}: one line is too few to hold some out; give data.valid"
            )
        return parts[:kept], parts[kept:]

    def tests(self) -> list[Document]:
        """The documents of the test set; none without one. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[Document]:
        """The documents of another file. Raises InputError as `load` does."""
        return list(self.documents(lines_of(path, self.text, apart=True)))

    def documents(self, lines: Iterable[str]) -> Iterable[Document]:
        """The documents of lines."""
        found: list[str] = []
        for line in lines:
            ends = (
                HEADING.fullmatch(line)
                if self.between == "heading"
                else not line.strip()
            )
            if ends and found:
                yield tuple(found)
                found = []
            if line.strip():
                found.append(line)
        if found:
            yield tuple(found)
