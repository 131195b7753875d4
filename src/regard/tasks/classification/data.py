"""The `data:` section of a run file for classification: texts, or pairs of texts, with their classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

from regard.config.recognition import Kind
from regard.data.mixture import Mixed, file_of
from regard.data.splits import Splits, check_share, spread
from regard.data.tables import Tabular
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

    def read(self, path: str) -> list[Labelled[Any]]: ...

    def with_columns(self, names: str | None, *, skip_bad: bool = False) -> "LabelledData":
        """The section with other columns, as `Tabular.with_columns`."""
        ...


@dataclass(frozen=True, kw_only=True)
class LabelledTables(Tabular, Mixed):
    """A .tsv, .csv, .jsonl or .json file a set, optionally .gz; none to train on in a run that was imported. `text`,
    `second` (of pairs) and `label` are column names, or numbers from 1. In JSON, `text` may be the list of a text's
    sentences and `label` a whole number.

    Without `valid` a share of the training file, `held_out`, is for validation: rows that stand equally far from each
    other. Or `fold` names a column of the training file: rows with one of its values `valid_folds` are for validation,
    those with one of `test_folds` for the test.
    """

    kind: Literal["labelled"] = "labelled"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    text: Value = "text"
    second: Value | None = None
    label: Value = "label"
    fold: Value | None = None
    valid_folds: tuple[Value, ...] = ()
    test_folds: tuple[Value, ...] = ()
    held_out: float = 0.1

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)

    def __post_init__(self) -> None:
        check_share(self.held_out, self.kind)
        self._check_folds()
        fold = {} if self.fold is None else {"fold": self.fold}
        self.check_columns(self.columns | fold, self.train, self.valid, self.test)

    def _check_folds(self) -> None:
        folds = {*map(str, self.valid_folds)}, {*map(str, self.test_folds)}
        if (self.fold is None) != (not any(folds)):
            raise InputError("labelled: fold, and valid_folds or test_folds, go together; give both or neither")
        if (folds[0] and self.valid is not None) or (folds[1] and self.test is not None):
            raise InputError("labelled: one set has both a file and folds; choose one")
        if folds[0] & folds[1]:
            raise InputError(f"labelled: fold {min(folds[0] & folds[1])} is for validation and test; choose one")

    @property
    def columns(self) -> dict[str, Value]:
        """The columns that are read, by their keys."""
        second = {} if self.second is None else {"second": self.second}
        return {"text": self.text, **second, "label": self.label}

    def load(self) -> Splits[Labelled[Any]]:
        """Read all files. Raises InputError with file and line for an invalid record."""
        held = {*map(str, (*self.valid_folds, *self.test_folds))}
        rows = self._training()
        train = [each for value, each in rows if value not in held]
        if not train:
            raise InputError(f"{self.train}: no row is left to train on; give fewer folds")
        if self.valid is not None:
            valid = self.read(self.valid)
        elif self.valid_folds:
            valid = self._of_folds(rows, self.valid_folds)
        else:
            train, valid = spread(train, self.held_out, f"{self.train}: {len(train)} rows")
        train = self.mixed(train, lambda each: file_of(each.place))
        return Splits(train, valid, self._of_folds(rows, self.test_folds) if self.test_folds else self.tests())

    def tests(self) -> list[Labelled[Any]]:
        """The examples of the test set; none without one. Raises InputError as `load` does."""
        if self.test_folds:
            return self._of_folds(self._training(), self.test_folds)
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[Labelled[Any]]:
        """The examples of another file. Raises InputError as `load` does."""
        return [each for _, each in self._rows(path, None)]

    def _training(self) -> list[tuple[str, Labelled[Any]]]:
        """The examples of the training file, with their folds."""
        if self.train is None:
            raise InputError("data.train is not given; expected a table, as --set data.train=FILE")
        return self._rows(self.train, self.fold)

    def _of_folds(self, rows: Sequence[tuple[str, Labelled[Any]]], values: tuple[Value, ...]) -> list[Labelled[Any]]:
        """The examples of some folds of the training file. Raises InputError for a value that no row has."""
        known = {value for value, _ in rows}
        for value in map(str, values):
            if value not in known:
                there = ", ".join(sorted(known)[:10])
                raise InputError(f"{self.train}: no row has {value} for {self.fold!r}; there are {there}")
        return [each for value, each in rows if value in set(map(str, values))]

    def _rows(self, path: str, fold: Value | None) -> list[tuple[str, Labelled[Any]]]:
        """The examples of a file, each with its fold. The text is the last column, which may be a list."""
        others = {key: column for key, column in self.columns.items() if key != "text"}
        folds = {} if fold is None else {"fold": fold}
        found = []
        columns, numbers = others | folds | {"text": self.text}, (self.label, *folds.values())
        rows = self.rows(path, columns, numbers=numbers, lists=self.lists)
        labels = self.plain([row.fields[len(others) - 1] for row in rows])
        for row, label in zip(rows, labels, strict=True):
            sentences = (row.fields[-1], *row.others)
            second = row.fields[: len(others) - 1]
            texts = (" ".join(sentences), *second)
            value = "" if fold is None else row.fields[-2]
            own = sentences if row.listed else ()
            found.append((value, Labelled(texts, self.label_of(label, row.place), row.place, own)))
        return found

    @property
    def lists(self) -> tuple[Value, ...]:
        """The columns that may be empty, and in JSON a list; none for classes."""
        return ()

    def plain(self, fields: Sequence[str]) -> Sequence[str]:
        """The fields of a file's labels in the notation that `label_of` reads: as they are."""
        return fields

    def label_of(self, field: str, place: str) -> Any:
        """The label in the field of a row: the name of a class. Raises InputError, which names the place, for another
        field than the task expects."""
        return field
