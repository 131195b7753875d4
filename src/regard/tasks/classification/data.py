"""The `data:` section of a run file for classification: texts, or pairs of texts, with their classes."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool

from regard.config.recognition import Kind
from regard.data.bad_records import Row
from regard.data.columns import Ragged, Shard
from regard.data.mixture import Mixed, file_of
from regard.data.splits import Splits, check_share, spread, spread_rows
from regard.data.stored import Stored, is_large, stored
from regard.data.stored_pairs import number
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


class StoredLabelled(Stored[Labelled[Any]]):
    """Labelled texts, each in JSON."""

    def example(self, shard: Shard, place: int) -> Labelled[Any]:
        texts, label, origin, sentences = json.loads(
            shard.columns["example"].text(place)
        )
        return Labelled(
            tuple(texts),
            tuple(label) if isinstance(label, list) else label,
            origin,
            tuple(sentences),
        )

    @staticmethod
    def shard(examples: Sequence[Any]) -> Shard:
        """Examples as a shard."""
        parts = (
            [each.texts, each.label, each.place, each.sentences] for each in examples
        )
        return Shard(
            {
                "example": Ragged.of_texts(
                    json.dumps(each, ensure_ascii=False) for each in parts
                )
            },
            {},
        )


class StoredFolds(StoredLabelled):
    """Labelled texts with the number of each one's fold; the counts of a shard have the values of the folds."""

    @staticmethod
    def shard(examples: Sequence[Any]) -> Shard:
        """Examples with the values of their folds as a shard."""
        found = StoredLabelled.shard([each for _, each in examples])
        folds = Ragged.of_ids(
            [[number(value, signed=True)] for value, _ in examples], np.int64
        )
        return Shard(
            {**found.columns, "fold": folds}, Counter(value for value, _ in examples)
        )

    @property
    def folds(self) -> set[str]:
        """The values of all folds."""
        return {value for shard in self.table.shards for value in shard.counts}

    def rows_of(self, values: Iterable[str]) -> Bool[np.ndarray, " row"]:
        """Whether each row is in one of some folds."""
        numbers = np.concatenate(
            [shard.columns["fold"].values for shard in self.table.shards]
        )
        return np.isin(numbers, [number(value, signed=True) for value in values])


Value = str | int


@runtime_checkable
class LabelledData(Protocol):
    """A `data:` section with labelled texts."""

    @property
    def second(self) -> Value | None: ...

    def tests(self) -> Sequence[Labelled[Any]]: ...

    def read(self, path: str) -> list[Labelled[Any]]: ...

    def with_columns(
        self, names: str | None, *, skip_bad: bool = False
    ) -> "LabelledData":
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

    text: The column of the text, or its number from 1; in JSON the text may be a list of sentences.
    second: The column of the other text of a pair.
    label: The column of the label.
    ignore: A label whose rows are left out, such as SNLI's -, where annotators do not agree.
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
            raise InputError(
                "labelled: fold, and valid_folds or test_folds, go together; give both or neither"
            )
        if (folds[0] and self.valid is not None) or (
            folds[1] and self.test is not None
        ):
            raise InputError("labelled: one set has both a file and folds; choose one")
        if folds[0] & folds[1]:
            raise InputError(
                f"labelled: fold {min(folds[0] & folds[1])} is for validation and test; choose one"
            )

    @property
    def columns(self) -> dict[str, Value]:
        """The columns that are read, by their keys."""
        second = {} if self.second is None else {"second": self.second}
        return {"text": self.text, **second, "label": self.label}

    def load(self) -> Splits[Labelled[Any]]:
        """Read all files. Raises InputError with file and line for an invalid record."""
        if self.train is not None and is_large([self.train]):
            return self._on_disk(self.train)
        held = {*map(str, (*self.valid_folds, *self.test_folds))}
        rows = self._training()
        train = [each for value, each in rows if value not in held]
        if not train:
            raise self._none_left()
        if self.valid is not None:
            valid = self.read(self.valid)
        elif self.valid_folds:
            valid = self._of_folds(rows, self.valid_folds)
        else:
            train, valid = spread(
                train, self.held_out, f"{self.train}: {len(train)} rows"
            )
        train = self.mixed(train, lambda each: file_of(each.place))
        return Splits(
            train,
            valid,
            self._of_folds(rows, self.test_folds) if self.test_folds else self.tests(),
        )

    def tests(self) -> list[Labelled[Any]]:
        """The examples of the test set; none without one. Raises InputError as `load` does."""
        if self.test_folds and self.train is not None and is_large([self.train]):
            return self._part(self._stored_folds(self.train), self.test_folds)
        if self.test_folds:
            return self._of_folds(self._training(), self.test_folds)
        return self.read(self.test) if self.test else []

    def read(self, path: str) -> list[Labelled[Any]]:
        """The examples of another file. Raises InputError as `load` does."""
        return [each for _, each in self._rows(path, None)]

    def _training(self) -> list[tuple[str, Labelled[Any]]]:
        """The examples of the training file, with their folds."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a table, as --set data.train=FILE"
            )
        return self._rows(self.train, self.fold)

    def _of_folds(
        self, rows: Sequence[tuple[str, Labelled[Any]]], values: tuple[Value, ...]
    ) -> list[Labelled[Any]]:
        """The examples of some folds of the training file. Raises InputError for a value that no row has."""
        self._check_known(values, {value for value, _ in rows})
        return [each for value, each in rows if value in set(map(str, values))]

    def _check_known(self, values: tuple[Value, ...], known: Collection[str]) -> None:
        """Raises InputError for the value of a fold that no row has."""
        for value in map(str, values):
            if value not in known:
                there = ", ".join(sorted(known)[:10])
                raise InputError(
                    f"{self.train}: no row has {value} for {self.fold!r}; there are {there}"
                )

    def _none_left(self) -> InputError:
        return InputError(f"{self.train}: no row is left to train on; give fewer folds")

    def _on_disk(self, path: str) -> Splits[Labelled[Any]]:
        """The sets, with the training texts on disk."""
        test = self.tests()
        if self.fold is None:
            every = stored(
                StoredLabelled,
                [path],
                self._settings,
                lambda: self._stream(path),
                lambda: 0,
            )
            rows, name = np.arange(len(every)), ""
        else:
            every = self._stored_folds(path)
            rows = np.flatnonzero(
                ~every.rows_of(map(str, (*self.valid_folds, *self.test_folds)))
            )
            name = f"not folds {self.valid_folds} {self.test_folds}"
            if not len(rows):
                raise self._none_left()
        if self.valid is not None:
            valid = self.read(self.valid)
        elif isinstance(every, StoredFolds) and self.valid_folds:
            valid = self._part(every, self.valid_folds)
        else:
            rest, held = spread_rows(
                len(rows), self.held_out, f"{path}: {len(rows)} rows"
            )
            valid, rows, name = (
                every.part(rows[held], "")[:],
                rows[rest],
                f"{name}not held out {self.held_out}",
            )
        train = every.part(rows, name) if name else every
        return Splits(self.mixed(train, lambda each: file_of(each.place)), valid, test)

    @property
    def _settings(self) -> str:
        """What decides about the content of the examples."""
        none: dict[str, Any] = {
            "train": None,
            "valid": None,
            "test": None,
            "fold": None,
        }
        return repr(
            replace(
                self, **none, valid_folds=(), test_folds=(), held_out=0.1, mixture={}
            )
        )

    def _stored_folds(self, path: str) -> StoredFolds:
        """The texts of a large file on disk, with their folds."""
        columns, fold = self._last_text({"fold": self.fold or ""}), self.fold
        settings = f"{self._settings} {fold}"
        return stored(
            StoredFolds,
            [path],
            settings,
            lambda: self._labelled(lambda: self.streamed(path, *columns), fold),
            lambda: 0,
        )

    def _part(
        self, every: StoredFolds, values: tuple[Value, ...]
    ) -> list[Labelled[Any]]:
        """The examples of some folds of a set on disk. Raises InputError for a value that no row has."""
        self._check_known(values, every.folds)
        return every.part(np.flatnonzero(every.rows_of(map(str, values))), "")[:]

    def _stream(self, path: str) -> Iterator[Labelled[Any]]:
        """The examples of a large file, one in memory at a time."""
        columns = self._last_text({})
        return (
            each
            for _, each in self._labelled(lambda: self.streamed(path, *columns), None)
        )

    def _rows(self, path: str, fold: Value | None) -> list[tuple[str, Labelled[Any]]]:
        """The examples of a file, each with its fold."""
        rows = self.rows(path, *self._last_text({} if fold is None else {"fold": fold}))
        return list(self._labelled(lambda: rows, fold))

    def _last_text(
        self, folds: dict[str, Value]
    ) -> tuple[dict[str, Value], tuple[Value, ...], tuple[Value, ...]]:
        """The columns with the text last, which may be a list; those that may be numbers, and those that may be
        lists."""
        others = {key: column for key, column in self.columns.items() if key != "text"}
        return (
            others | folds | {"text": self.text},
            (self.label, *folds.values()),
            self.lists,
        )

    def _labelled(
        self, rows: Callable[[], Iterable[Row]], fold: Value | None
    ) -> Iterator[tuple[str, Labelled[Any]]]:
        count = len(self.columns) - 1
        plain = self.notation(
            field for row in rows() if (field := row.fields[count - 1]) != self.ignore
        )
        for row in rows():
            if row.fields[count - 1] == self.ignore:
                continue
            sentences = (row.fields[-1], *row.others)
            texts = (" ".join(sentences), *row.fields[: count - 1])
            value = "" if fold is None else row.fields[-2]
            label = self.label_of(plain(row.fields[count - 1]), row.place)
            yield (
                value,
                Labelled(texts, label, row.place, sentences if row.listed else ()),
            )

    @property
    def lists(self) -> tuple[Value, ...]:
        """The columns that may be empty, and in JSON a list; none for classes."""
        return ()

    def notation(self, fields: Iterable[str]) -> Callable[[str], str]:
        """From the field of a label to the notation that `label_of` reads, by the fields of the whole file: as it
        is."""
        return str

    def label_of(self, field: str, place: str) -> Any:
        """The label in the field of a row: the name of a class. Raises InputError, which names the place, for another
        field than the task expects."""
        return field
