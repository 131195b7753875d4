"""The base of `data:` sections of files: one `load` for every task.

A section derives from `TableFiles` and says which columns it needs and what a row is:

    @dataclass(frozen=True, kw_only=True)
    class LabelledTables(TableFiles[Labelled]):
        kind: Literal["labelled"] = "labelled"
        train: str | None = None
        ...
        example_type = Labelled

        columns = property(...)            # {"text": self.text, "label": self.label}

        def parse(self, row: Row) -> Labelled:
            text, label = row.fields
            return Labelled(text, label, row.place)

`load`, `read` and `tests`, the hold-out, the cache on disk of large training sets and
`skip_bad` follow. A section of other files derives from `DataFiles` and gives
`examples(path)` instead of `parse`. `example_type` is a dataclass of texts, numbers,
tuples and such dataclasses: the cache writes it as JSON. A section may also give

- `group(example)`: examples of one group stay in one set, such as all targets of one source;
- `stratum(example)`: each stratum, such as a class, gets its share of the validation set;
- `split_column`, `split_names` and `set_of(example)`: the column that says of which set a
  row is.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from regard.config.file_kinds import Kind
from regard.data.cache import CachedSet, Rows, cache_examples, cache_value, is_large
from regard.data.rows import Row, iterate_converted
from regard.data.splits import (
    HeldOut,
    Splits,
    choose_from_strata,
    choose_groups,
    too_few,
)
from regard.data.tables import Columns, Tabular
from regard.errors import InputError

E = TypeVar("E")
log = logging.getLogger("regard")
Paths = str | tuple[str, ...] | None
"""The file of a set, a folder or a pattern, or several; None for no set."""
SET_KEYS = frozenset(
    ("train", "valid", "test", "held_out", "split_seed", "valid_folds", "test_folds")
)
"""The keys of a section that don't change the examples of a file."""


@dataclass(frozen=True, kw_only=True)
class DataFiles(HeldOut, ABC, Generic[E]):
    """A path for each set of examples.

    Attributes:
        train: The files to train on.
        valid: The files to validate with; without them training examples are held out.
        test: The files of the final evaluation.
    """

    train: Paths = None
    valid: Paths = None
    test: Paths = None

    example_type: ClassVar[Any] = None
    """What the cache on disk writes as JSON; None for sets that stay in memory."""
    expected: ClassVar[str] = "a file, as --set data.train=FILE"
    """What `data.train` must be, for messages."""
    recognised: ClassVar[tuple[Kind, ...]] = ()
    """The kinds of files that a section supports, of which `data.train` may name one."""
    noun: ClassVar[str] = "examples"
    """What several examples are called in messages."""
    convert: ClassVar[Callable[[Any], Any] | None] = None
    """Makes an example of what `examples` yields and the cache stores, if they differ."""

    @abstractmethod
    def examples(self, path: Any) -> Iterator[Any]:
        """Yield the examples of a set, with one in memory at a time where possible.

        Raises:
            InputError: A file or a record is bad.
        """

    def group(self, example: Any) -> Hashable:
        """Return the group of an example; None where each is a separate group."""
        return None

    def stratum(self, example: Any) -> Any:
        """Return the stratum of an example; None to hold out at random."""
        return None

    def train_examples(self) -> Iterator[Any]:
        """Yield the examples of the training files."""
        return self.examples(self.train)

    def set_of(self, example: Any) -> str:
        """Return the value of an example of the training files in `split_column`."""
        return ""

    @property
    def split_column(self) -> Mapping[str, str | int]:
        """The column that says of which set a row is, by its key; empty for none."""
        return {}

    @property
    def split_names(self) -> Mapping[str, Collection[str]]:
        """The values of `split_column` of each set.

        Without values of `train` other rows are for training.
        """
        return {}

    @property
    def content_settings(self) -> str:
        """The settings that decide on the examples of a file, for the cache."""
        names = [key.name for key in fields(self) if key.name not in SET_KEYS]
        return repr({name: getattr(self, name) for name in names})

    def load(self) -> Splits[E]:
        """Read all sets; a large training set is cached on disk.

        Raises:
            InputError: A file or a record is bad, by file and line, or
                there are too few examples to hold some out.
        """
        train, valid, test = self.separate()
        if self.valid:
            valid = list(self.examples(self.valid))
        elif not valid:
            train, valid = self.choose_valid(train)
        if self.test:
            test = list(self.examples(self.test))
        return Splits(*map(self._convert, (train, valid, test)))

    def read(self, path: Any) -> Sequence[E]:
        """Read the examples of another file. Raises InputError as `load` does."""
        return self._convert(list(self.examples(path)))

    def tests(self) -> Sequence[E]:
        """Read the test set; empty without one. Raises InputError as `load` does."""
        if self.test:
            return self.read(self.test)
        if self.split_names.get("test"):
            return self._convert(self.separate()[2])
        return []

    def read_train(self) -> Sequence[E]:
        """Read the examples of the training files, large ones from the cache."""
        if not self.train:
            raise InputError(f"data.train is not given; expected {self.expected}")
        paths = [self.train] if isinstance(self.train, str) else list(self.train)
        if self.example_type is None or not is_large(paths):
            return list(self.train_examples())
        return cache_examples(
            self.example_type, paths, self.content_settings, self.train_examples
        )

    def _convert(self, examples: Sequence[Any]) -> Sequence[E]:
        convert = type(self).convert
        if convert is None:
            return examples
        if isinstance(examples, CachedSet):
            return examples.map(convert, "converted")
        return list(map(convert, examples))

    def choose_valid(self, train: Sequence[E]) -> tuple[Sequence[E], Sequence[E]]:
        """Hold validation examples out of the training set."""
        title = f"held out {self.held_out} {self.split_seed}"

        def choose() -> list[int]:
            if strata := _keys(train, self.stratum):
                rows = choose_from_strata(strata, self.held_out, self.split_seed)
            else:
                groups = _keys(train, self.group) or range(len(train))
                rows = choose_groups(groups, self.held_out, self.split_seed)
            if not 0 < len(rows) < len(train):
                raise too_few(f"{self.train}: {len(train):,} {self.noun}")
            return rows

        rows = cache_value(train, title, choose)
        remaining = np.delete(np.arange(len(train)), rows)
        return select(train, remaining, f"not {title}"), list(
            select(train, rows, title)
        )

    def separate(self) -> tuple[Sequence[E], Sequence[E], Sequence[E]]:
        """Read the training files as the three sets that `split_column` names."""
        examples = self.read_train()
        if not self.split_column:
            return examples, [], []
        values = cache_value(examples, "sets", lambda: list(map(self.set_of, examples)))
        rows: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
        names = {
            value: name for name, names in self.split_names.items() for value in names
        }
        names_in_data = {*values}
        is_complete = "train" in self.split_names
        if (
            names_in_data - names.keys()
            if is_complete
            else names.keys() - names_in_data
        ):
            (column,) = self.split_column.values()
            raise InputError(
                f"{self.train}: the column {column!r} has {', '.join(sorted(names_in_data)[:10])}; "
                f"expected {', '.join(names)}"
            )
        for row, value in enumerate(values):
            rows[names.get(value, "train")].append(row)
        title = f"of {self.split_column} {self.split_names}"
        train, valid, test = (
            select(examples, rows[name], f"{name} {title}") for name in rows
        )
        if not train:
            raise InputError(
                f"{self.train}: no row is left to train on; give fewer folds"
            )
        return train, list(valid), list(test)


def _keys(examples: Sequence[E], key: Callable[[E], Any]) -> list[Any]:
    """Return the key of each example; nothing where the first one lacks it."""
    if not examples or key(examples[0]) is None:
        return []
    return list(map(key, examples))


def select(examples: Sequence[E], rows: Rows, name: str) -> Sequence[E]:
    """Return the examples in these rows; a cached set stays on disk."""
    if isinstance(examples, CachedSet):
        return examples.select(rows, name)
    return [examples[row] for row in np.asarray(rows, dtype=np.int64).tolist()]


@dataclass(frozen=True, kw_only=True)
class TableFiles(DataFiles[E], Tabular):
    """A table for each set, whose rows are the examples.

    A section gives `columns` and `parse`; also `row_columns` where the fields of a row
    have another order. The last of them may hold a list in JSON.
    """

    @property
    def row_columns(self) -> Mapping[str, str | int]:
        """The columns in the order of the fields of a row."""
        return self.columns

    @property
    def number_columns(self) -> tuple[str | int, ...]:
        """The columns that may hold numbers in JSON."""
        return ()

    @property
    def list_columns(self) -> tuple[str | int, ...]:
        """The columns that may be empty, and hold lists in JSON."""
        return ()

    @abstractmethod
    def parse(self, row: Row) -> E | None:
        """Return the example of a row; None to leave the row out.

        Raises:
            InputError: The row is bad; with `skip_bad` it is counted and left out.
        """

    def examples(self, path: Any) -> Iterator[E]:
        """Yield the examples of a table. Raises InputError as `load` does."""
        return self.read_table(path, {})

    def train_examples(self) -> Iterator[E]:
        """Yield the examples of the training table, with the set of each row."""
        if not self.split_column:
            return self.examples(self.train)
        return self.read_table(self.train, self.split_column)

    def read_table(self, path: Any, split: Columns) -> Iterator[E]:
        """Yield the examples of a table; the column `split` names the set of a row."""
        columns = {**split, **self.row_columns}
        numbers = (*self.number_columns, *split.values())
        rows = self.stream_rows(path, columns, numbers, self.list_columns)
        if split:
            rows = (replace(r, fields=r.fields[1:], split=r.fields[0]) for r in rows)
        examples = iterate_converted(rows, self.parse, path, skip_bad=self.skip_bad)
        count = missing = 0
        for example in examples:
            if example is None:
                missing += 1
            else:
                count += 1
                yield example
        if missing:
            log.info("%s: %d of %d rows left out", path, missing, count + missing)
