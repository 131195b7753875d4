"""The `data:` section of a run file for classification: texts, or pairs of texts, with their classes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from regard.config.file_kinds import Kind
from regard.data.data_files import Mixed, TableFiles
from regard.data.rows import Row
from regard.data.splits import check_share
from regard.errors import InputError

L = TypeVar("L")


@dataclass(frozen=True)
class Labelled(Generic[L]):
    """One text or two, the label, and where they came from (`file:line`), for error messages; `sentences` of one text
    that came cut into them."""

    texts: tuple[str, ...]
    label: L
    place: str
    sentences: tuple[str, ...] = ()


Value = str | int


@runtime_checkable
class LabelledData(Protocol):
    """A `data:` section with labelled texts."""

    @property
    def second(self) -> Value | None: ...

    def tests(self) -> Sequence[Labelled[Any]]: ...

    def read(self, path: str) -> Sequence[Labelled[Any]]: ...

    def with_columns(
        self, names: str | None, *, skip_bad: bool = False
    ) -> "LabelledData":
        """Return the section with other columns, as `Tabular.with_columns`."""
        ...


@dataclass(frozen=True, kw_only=True)
class LabelledTables(Mixed[Labelled[Any]], TableFiles[Labelled[Any]]):
    """A table for each set of texts, or pairs of texts, with their labels.

    An imported run has none to train on. In JSON, `text` may be the list of a text's
    sentences and `label` a whole number. Without `valid`, the share `held_out` of each
    class is for validation. Or `fold` names a column of the training file whose values
    choose the sets: folds, or names such as train and test.

    text: The column of the text, or its number from 1; in JSON the text may be a list of
        sentences.
    second: The column of the other text of a pair.
    label: The column of the label.
    ignore: A label whose rows are left out, such as SNLI's -, where annotators do not
        agree.
    fold: A column of the training file by whose values sets are chosen.
    valid_folds: The values of `fold` whose rows are for validation.
    test_folds: The values of `fold` whose rows are the test set.
    """

    kind: Literal["labelled"] = "labelled"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text: Value = "text"
    second: Value | None = None
    label: Value = "label"
    ignore: str | None = None
    fold: Value | None = None
    valid_folds: tuple[Value, ...] = ()
    test_folds: tuple[Value, ...] = ()

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)
    example_type = Labelled[str]
    noun = "rows"
    expected = "a table, as --set data.train=FILE"

    def __post_init__(self) -> None:
        check_share(self.held_out, self.kind)
        self._check_folds()
        columns = {**self.split_column, **self.columns}
        self.check_columns(columns, self.train, self.valid, self.test)

    def _check_folds(self) -> None:
        valid, test = {*map(str, self.valid_folds)}, {*map(str, self.test_folds)}
        if (self.fold is None) != (not valid and not test):
            raise InputError(
                "labelled: fold, and valid_folds or test_folds, go together; give both "
                "or neither"
            )
        if (valid and self.valid is not None) or (test and self.test is not None):
            raise InputError("labelled: one set has both a file and folds; choose one")
        if valid & test:
            raise InputError(
                f"labelled: fold {min(valid & test)} is for validation and test; "
                "choose one"
            )

    @property
    def columns(self) -> dict[str, Value]:
        """The columns that are read, by their keys."""
        second = {} if self.second is None else {"second": self.second}
        return {"text": self.text, **second, "label": self.label}

    @property
    def row_columns(self) -> dict[str, Value]:
        """The columns with the text last, which may be a list of sentences."""
        columns = self.columns
        text = columns.pop("text")
        return {**columns, "text": text}

    @property
    def number_columns(self) -> tuple[Value, ...]:
        """The columns that may hold numbers in JSON."""
        return (self.label,)

    @property
    def split_column(self) -> Mapping[str, Value]:
        """The column of the folds, if there is one."""
        return {} if self.fold is None else {"fold": self.fold}

    @property
    def split_names(self) -> Mapping[str, Collection[str]]:
        """The folds of validation and test."""
        names = {"valid": self.valid_folds, "test": self.test_folds}
        return {key: [*map(str, folds)] for key, folds in names.items() if folds}

    def check_split_values(
        self, values: Sequence[str], examples: Sequence[Labelled[Any]]
    ) -> None:
        """Raise InputError for a fold that no row has."""
        allowed = set(values)
        for value in map(str, (*self.valid_folds, *self.test_folds)):
            if value not in allowed:
                raise InputError(
                    f"{self.train}: no row has {value} for {self.fold!r}; there are "
                    f"{', '.join(sorted(allowed)[:10])}"
                )

    def stratum(self, example: Labelled[Any]) -> Any:
        """Return the label."""
        return example.label

    def parse(self, row: Row) -> Labelled[Any] | None:
        """Return the example of a row.

        Raises:
            InputError: A bad label.
        """
        *second, label, text = row.fields
        if label == self.ignore:
            return None
        sentences = (text, *row.others)
        return Labelled(
            (" ".join(sentences), *second),
            self.parse_label(label, row.place),
            row.place,
            sentences if row.listed else (),
        )

    def parse_label(self, field: str, place: str) -> Any:
        """Return the label in the field of a row: the name of a class."""
        return field
