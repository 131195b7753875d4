"""Texts, or pairs of texts, with their classes: what the `data:` section of a run file for classification becomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.data.held_out import check_share, spread
from regard.data.tables import Columns, kind, read_table
from regard.errors import InputError


@dataclass(frozen=True)
class Labelled:
    """One text or two, the class, and where they came from (`file:line`), for error messages."""

    texts: tuple[str, ...]
    label: str
    place: str


@dataclass(frozen=True)
class LabelledSplits:
    """What a run trains on, chooses its best checkpoint by, and is finally measured on. `test` may be empty."""

    train: Sequence[Labelled]
    valid: Sequence[Labelled]
    test: Sequence[Labelled] = ()


@dataclass(frozen=True, kw_only=True)
class LabelledTables:
    """A .tsv, .csv or .jsonl file a set, optionally .gz. `text`, `second` (of pairs) and `label` are column names, or
    numbers from 1. Without `valid` a share of the training file, `held_out`, is for validation: rows that stand equally
    far from each other."""

    kind: Literal["labelled"] = "labelled"
    train: str
    valid: str | None = None
    test: str | None = None
    text: str | int = "text"
    second: str | int | None = None
    label: str | int = "label"
    held_out: float = 0.1
    skip_bad: bool = False

    def __post_init__(self) -> None:
        check_share(self.held_out, self.kind)
        numbered = {isinstance(column, int) for column in self.columns}
        if len(numbered) > 1 or (True in numbered and ".jsonl" in map(kind, self.paths)):
            raise InputError(
                f"labelled: the columns {', '.join(map(repr, self.columns))} must all be names, or all numbers of the "
                "columns of .tsv or .csv files without a header"
            )

    @property
    def columns(self) -> Columns:
        """Those that are read."""
        second = () if self.second is None else (self.second,)
        found = (self.text, *second, self.label)
        return found  # pyright: ignore[reportReturnType] __post_init__ refuses names among numbers

    @property
    def paths(self) -> list[str]:
        """Those that are given."""
        return [path for path in (self.train, self.valid, self.test) if path is not None]

    def load(self) -> LabelledSplits:
        """Reads all files. Raises InputError naming file and line for whatever cannot be used."""
        train = self.read(self.train)
        if self.valid is not None:
            return LabelledSplits(train, self.read(self.valid), self.tests())
        return LabelledSplits(*spread(train, self.held_out, f"{self.train}: {len(train)} rows"), self.tests())

    def tests(self) -> list[Labelled]:
        """Those of the test set; none without one. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[Labelled]:
        """Those of another file. Raises InputError as `load` does."""
        rows = read_table(path, self.columns, skip_bad=self.skip_bad)
        return [Labelled(row.fields[:-1], row.fields[-1], row.place) for row in rows]
