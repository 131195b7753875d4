"""The base of `data:` sections that read files: one `load` for every task.

A section derives from `TableFiles` and says which columns it reads and what a row is:

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
`examples(path)` in place of `parse`. `example_type` is a dataclass of texts, numbers,
tuples and such dataclasses: the cache writes it as JSON. A section may also give

- `group(example)`: examples of one group stay in one set, such as those of one source;
- `stratum(example)`: each stratum, such as a class, gets its share of the validation set;
- `split_column` and `split_names`: the column that says of which set a row is;
- `check_splits(splits)`: raise InputError for sets that don't go together.
"""

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
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from regard.data.cache import CachedSet, Rows, cache_examples, cache_value, is_large
from regard.data.rows import Row, iterate_converted
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Columns, Tabular
from regard.errors import InputError

E = TypeVar("E")
Paths = str | tuple[str, ...] | None
"""The file of a set, a folder or a pattern, or several; None for no set."""
SET_KEYS = frozenset(
    ("train", "valid", "test", "held_out", "split_seed", "valid_folds", "test_folds")
)
"""The keys of a section that don't change what is read from a file."""


@dataclass(frozen=True, kw_only=True)
class DataFiles(HeldOut, ABC, Generic[E]):
    """A path for each set, from which examples are read.

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
    noun: ClassVar[str] = "examples"
    """What several examples are called in messages."""
    convert: ClassVar[Callable[[Any], Any] | None] = None
    """Makes an example of what `examples` yields and the cache stores, if they differ."""

    @abstractmethod
    def examples(self, path: Any) -> Iterator[Any]:
        """Yield the examples of a set, with one in memory at a time where possible.

        Raises:
            InputError: A file cannot be read or has a bad record.
        """

    def entries(self, path: Any) -> Iterator[tuple[str, Any]]:
        """Yield the examples of a set, each after its value in `split_column`."""
        return (("", example) for example in self.examples(path))

    def group(self, example: Any) -> Hashable:
        """Return the group of an example; None where each is a group of its own."""
        return None

    def stratum(self, example: Any) -> Any:
        """Return the stratum of an example; None to hold out at random."""
        return None

    @property
    def split_column(self) -> Mapping[str, str | int]:
        """The column that says of which set a row is, by its key; empty for none."""
        return {}

    @property
    def split_names(self) -> Mapping[str, Collection[str]]:
        """The values of `split_column` of each set; other rows are for training."""
        return {}

    def check_split_values(self, values: Sequence[str], examples: Sequence[E]) -> None:
        """Raise InputError for values of `split_column` that don't fit `split_names`."""

    def check_splits(self, splits: Splits[E]) -> None:
        """Raise InputError for sets that don't go together."""

    @property
    def content_settings(self) -> str:
        """The settings that decide what is read from a file, for the cache."""
        names = [key.name for key in fields(self) if key.name not in SET_KEYS]
        return repr({name: getattr(self, name) for name in names})

    def load(self) -> Splits[E]:
        """Read all sets; a large training set is cached on disk.

        Raises:
            InputError: A file cannot be read or has a bad record, by file and line, or
                there are too few examples to hold some out.
        """
        parts = self.separate()
        train = parts["train"]
        valid = parts["valid"]
        if self.valid:
            valid = list(self.examples(self.valid))
        elif not valid:
            train, valid = self.choose_valid(train)
        test = self.read(self.test) if self.test else self._convert(parts["test"])
        splits = Splits(self._convert(train), self._convert(valid), test)
        self.check_splits(splits)
        return splits

    def read(self, path: Any) -> Sequence[E]:
        """Read the examples of another file. Raises InputError as `load` does."""
        return self._convert(list(self.examples(path)))

    def tests(self) -> Sequence[E]:
        """Read the test set; empty without one. Raises InputError as `load` does."""
        if self.test:
            return self.read(self.test)
        if self.split_names.get("test"):
            return self._convert(self.separate()["test"])
        return []

    def read_train(self) -> Sequence[tuple[str, E]] | CachedSet[E]:
        """Read the entries of the training files, or open the examples in the cache."""
        if not self.train:
            raise InputError(f"data.train is not given; expected {self.expected}")
        paths = [self.train] if isinstance(self.train, str) else list(self.train)
        if self.example_type is None or not is_large(paths):
            return list(self.entries(self.train))
        read = partial(self.entries, self.train)
        return cache_examples(self.example_type, paths, self.content_settings, read)

    def _convert(self, examples: Sequence[Any]) -> Sequence[E]:
        convert = type(self).convert
        if convert is None:
            return examples
        if isinstance(examples, CachedSet):
            return examples.map(convert, "converted")
        return list(map(convert, examples))

    def choose_valid(self, train: Sequence[E]) -> tuple[Sequence[E], Sequence[E]]:
        """Hold validation examples out of the training set."""
        name = f"{self.train}: {len(train):,} {self.noun}"
        title = f"held out {self.held_out} {self.split_seed}"
        held_out = cache_value(
            train,
            title,
            lambda: self.choose_rows(
                len(train), name, _keys(train, self.group), _keys(train, self.stratum)
            ),
        )
        remaining = np.delete(np.arange(len(train)), held_out)
        return (
            select(train, remaining, f"not {title}"),
            list(select(train, held_out, title)),
        )

    def separate(self) -> dict[str, Sequence[E]]:
        """Read the training files as the sets that `split_column` names."""
        entries: Any = self.read_train()
        if isinstance(entries, CachedSet):
            examples: Sequence[E] = entries
            values = entries.splits() if self.split_column else []
        else:
            examples = [example for _, example in entries]
            values = [value for value, _ in entries]
        if not self.split_column:
            return {"train": examples, "valid": [], "test": []}
        self.check_split_values(values, examples)
        set_of = {
            value: name for name, names in self.split_names.items() for value in names
        }
        sets: dict[str, Sequence[E]] = {}
        for name in ("train", "valid", "test"):
            rows = [
                row
                for row, value in enumerate(values)
                if set_of.get(value, "train") == name
            ]
            title = f"{name} of {self.split_column} {self.split_names}"
            part = select(examples, rows, title)
            sets[name] = part if name == "train" else list(part)
        if not sets["train"]:
            raise InputError(
                f"{self.train}: no row is left to train on; give fewer folds"
            )
        return sets


def _keys(examples: Sequence[E], key: Callable[[E], Any]) -> list[Any] | None:
    """Return the key of each example; None where the first one has none."""
    if not examples or key(examples[0]) is None:
        return None
    return [key(example) for example in examples]


def select(examples: Sequence[E], rows: Rows, name: str) -> Sequence[E]:
    """Return the examples in these rows; those of a cached set stay on disk."""
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

    def parser(self, path: Any) -> Callable[[Row], E | None]:
        """Return what parses the rows of a file: `parse`."""
        return self.parse

    def examples(self, path: Any) -> Iterator[E]:
        """Yield the examples of a table. Raises InputError as `load` does."""
        return (example for _, example in self._parse_rows(path, {}))

    def entries(self, path: Any) -> Iterator[tuple[str, E]]:
        """Yield the examples of a table, each after its value in `split_column`."""
        return self._parse_rows(path, self.split_column)

    def _parse_rows(self, path: Any, split: Columns) -> Iterator[tuple[str, E]]:
        parse = self.parser(path)

        def parse_row(row: Row) -> tuple[str, E | None]:
            fields = row.fields[len(split) :]
            return row.fields[0] if split else "", parse(replace(row, fields=fields))

        columns = {**split, **self.row_columns}
        numbers = (*self.number_columns, *split.values())
        rows = self.stream_rows(path, columns, numbers, self.list_columns)
        for value, example in iterate_converted(
            rows, parse_row, path, skip_bad=self.skip_bad
        ):
            if example is not None:
                yield value, example
