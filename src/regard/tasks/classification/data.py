"""The `data:` section of texts with labels: tables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from regard.data.data_files import TableFiles
from regard.data.rows import Row
from regard.errors import InputError

L = TypeVar("L")
Column = str | int


@dataclass(frozen=True)
class Labelled(Generic[L]):
    """One text or two with a label."""

    texts: tuple[str, ...]
    label: L
    place: str
    """Where they came from, `file:line`."""
    sentences: tuple[str, ...] = ()
    """The sentences of one text that came cut into them."""
    fold: str = ""
    """The value of the column of folds, in the training file."""


@dataclass(frozen=True, kw_only=True)
class LabelledTables(TableFiles[Labelled]):
    """A table for each set of texts, or pairs of texts, with their labels.

    Without `valid`, the share `held_out` of each class is for validation. Or `fold`
    names a column of the training file whose values choose the sets. An imported run
    has no table to train on.
    """

    kind: Literal["labelled"] = "labelled"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text: Column = "text"
    """The column of the text, or its number from 1; in JSON it may be a list of sentences."""
    second: Column | None = None
    """The column of the other text of a pair."""
    label: Column = "label"
    """The column of the label, in JSON also a whole number."""
    ignore: str | None = None
    """A label whose rows are left out, such as SNLI's -, where annotators do not agree."""
    fold: Column | None = None
    """A column of the training file by whose values the sets are chosen."""
    valid_folds: tuple[Column, ...] = ()
    """The values of `fold` whose rows are for validation."""
    test_folds: tuple[Column, ...] = ()
    """The values of `fold` whose rows are the test set."""

    recognised = ("table",)
    example_type = Labelled[str]
    noun = "rows"
    expected = "a table, as --set data.train=FILE"

    def __post_init__(self) -> None:
        folds = self.folds
        if (
            bool(folds) == (self.fold is None)
            or len(set(folds)) < len(folds)
            or (self.valid_folds and self.valid is not None)
            or (self.test_folds and self.test is not None)
        ):
            raise InputError(
                "labelled: fold needs valid_folds or test_folds, different ones, for "
                "sets without a file"
            )
        columns = {**self.split_column, **self.columns}
        self.check_columns(columns, self.train, self.valid, self.test)

    @property
    def folds(self) -> list[str]:
        """The values of the column of folds whose rows are not for training."""
        return [str(fold) for fold in (*self.valid_folds, *self.test_folds)]

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that are read, by their keys."""
        second = {} if self.second is None else {"second": self.second}
        return {"text": self.text, **second, "label": self.label}

    @property
    def row_columns(self) -> dict[str, Column]:
        """The columns with the text last, which may be a list of sentences."""
        columns = self.columns
        text = columns.pop("text")
        return {**columns, "text": text}

    @property
    def number_columns(self) -> tuple[Column, ...]:
        """The columns that may hold numbers in JSON."""
        return (self.label,)

    @property
    def split_column(self) -> Mapping[str, Column]:
        """The column of the folds, if there is one."""
        return {} if self.fold is None else {"fold": self.fold}

    @property
    def split_names(self) -> Mapping[str, Collection[str]]:
        """The folds of validation and test."""
        names = {"valid": self.valid_folds, "test": self.test_folds}
        return {key: [*map(str, folds)] for key, folds in names.items() if folds}

    def set_of(self, example: Labelled) -> str:
        """Return the fold."""
        return example.fold

    def stratum(self, example: Labelled) -> Any:
        """Return the label."""
        return example.label

    def parse(self, row: Row) -> Labelled | None:
        """Return the example of a row.

        Raises:
            InputError: A bad label.
        """
        *second, label, text = row.fields
        if label == self.ignore:
            return None
        sentences = (text, *row.alternatives)
        texts = (" ".join(sentences), *second)
        parts = sentences if row.listed else ()
        label = self.parse_label(label, row.place)
        return Labelled(
            texts,
            label,
            row.place,
            parts,
            row.split,
        )

    def parse_label(self, field: str, place: str) -> Any:
        """Return the label in the field of a row: the name of a class."""
        return field
