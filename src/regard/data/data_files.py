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
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePath
from random import Random
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from jaxtyping import Int
from pydantic import Field

from regard.data.cache import CachedSet, Rows, cache_examples, cache_value, is_large
from regard.data.rows import Row, iterate_converted
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.errors import InputError

E = TypeVar("E")
Paths = str | tuple[str, ...] | None
"""The file of a set, a folder or a pattern, or several; None for no set."""
SET_KEYS = frozenset(
    (
        *("train", "valid", "test", "held_out", "split_seed", "mixture"),
        *("valid_folds", "test_folds"),
    )
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

    def mix(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the training examples of an epoch."""
        return examples

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
        train, valid = parts["train"], parts["valid"]
        if self.valid:
            valid = list(self.examples(self.valid))
        elif not valid:
            train, valid = self.choose_valid(train)
        test = self.read(self.test) if self.test else self._convert(parts["test"])
        splits = Splits(self._convert(train), self._convert(valid), test)
        self.check_splits(splits)
        return replace(splits, train=self.mix(splits.train))

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
        settings = self.content_settings
        return cache_examples(self.example_type, paths, settings, read, self.count)

    def count(self) -> int:
        """Return about how many training examples there are; 0 if nobody knows."""
        return 0

    def _convert(self, examples: Sequence[Any]) -> Sequence[E]:
        convert = type(self).convert
        if convert is None:
            return examples
        if isinstance(examples, CachedSet):
            return examples.map(convert, "converted")
        return list(map(convert, examples))

    def choose_valid(self, train: Sequence[E]) -> tuple[Sequence[E], Sequence[E]]:
        """Hold validation examples out of the training set."""
        first = self.train if isinstance(self.train, str) else (self.train or "")[0]
        name = f"{first}: {len(train):,} {self.noun}"

        def choose() -> list[int]:
            groups = _keys(train, self.group)
            hashes = None if groups is None else list(map(hash, groups))
            return self.choose_rows(
                len(train), name, hashes, _keys(train, self.stratum)
            )

        title = f"held out {self.held_out} {self.split_seed}"
        held_out = cache_value(train, title, choose)
        remaining = np.delete(np.arange(len(train)), held_out)
        return (
            select(train, remaining, f"not {title}"),
            self.keep_valid(select(train, held_out, title)),
        )

    def keep_valid(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the held out examples of a set on disk in memory."""
        return list(examples)

    def separate(self) -> dict[str, Sequence[E]]:
        """Read the training files as the sets that `split_column` names."""
        entries: Any = self.read_train()
        if isinstance(entries, CachedSet):
            values = entries.splits() if self.split_column else []
            examples: Sequence[E] = entries
        else:
            values = [value for value, _ in entries] if self.split_column else []
            examples = [example for _, example in entries]
        if not values:
            return {"train": examples, "valid": [], "test": []}
        self.check_split_values(values, examples)
        names = self.split_names
        set_of = {value: key for key in names for value in names[key]}
        rows: dict[str, list[int]] = {"train": [], "valid": [], "test": []}
        for row, value in enumerate(values):
            rows[set_of.get(value, "train")].append(row)
        if not rows["train"]:
            raise InputError(
                f"{self.train}: no row is left to train on; give fewer folds"
            )
        parts = {
            key: select(examples, rows[key], f"{key} of {self.split_column} {names}")
            for key in rows
        }
        return {
            key: part if key == "train" else list(part) for key, part in parts.items()
        }


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
        rows = self.streamed(
            path, self.row_columns, self.number_columns, self.list_columns
        )
        parse = self.parser(path)
        for example in iterate_converted(rows, parse, path, skip_bad=self.skip_bad):
            if example is not None:
                yield example

    def entries(self, path: Any) -> Iterator[tuple[str, E]]:
        """Yield the examples of a table, each after its value in `split_column`."""
        split = self.split_column
        if not split:
            yield from super().entries(path)
            return
        numbers = (*self.number_columns, *split.values())
        rows = self.streamed(
            path, {**split, **self.row_columns}, numbers, self.list_columns
        )
        parse = self.parser(path)

        def parse_entry(row: Row) -> tuple[str, E | None]:
            value, *cells = row.fields
            return value, parse(replace(row, fields=tuple(cells)))

        entries = iterate_converted(rows, parse_entry, path, skip_bad=self.skip_bad)
        for value, example in entries:
            if example is not None:
                yield value, example


Share = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Shares = dict[str, Share]
"""How often examples come in an epoch, by patterns of the names of their files."""


@dataclass(frozen=True, kw_only=True)
class Mixed(DataFiles[E]):
    """Files of different weight.

    Of a share below 1 the same examples, chosen at random, come in each epoch. Examples
    that are held out for validation are left out before.

    mixture: How often the training examples of a file come in an epoch, by a pattern of
        its name or path: `{news*: 0.5, own.csv: 3}`. The first pattern that fits counts;
        other files come once.
    """

    mixture: Shares = field(default_factory=dict)

    def location(self, example: Any) -> str:
        """Return the `file:line` of an example."""
        return example.place

    def mix(self, examples: Sequence[E]) -> Sequence[E]:
        """Return the training examples of an epoch, those of a file together.

        Raises:
            InputError: A pattern fits no file, or no example is left.
        """
        if not self.mixture:
            return examples
        spans = list(
            _find_files(examples, lambda row: file_of(self.location(examples[row])))
        )
        shares = shares_of(self.mixture, [name for name, _, _ in spans])
        parts = [_sample(first, end, shares[name]) for name, first, end in spans]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        if not len(rows):
            raise InputError(
                f"data.mixture is {self.mixture}: no example is left to train on; raise a share"
            )
        return select(examples, rows.tolist(), f"mixed {sorted(self.mixture.items())}")


def shares_of(mixture: Mapping[str, float], files: Sequence[str]) -> dict[str, float]:
    """Return the share of each file. Raises InputError for a pattern that fits none."""
    patterns = {
        file: next((pattern for pattern in mixture if _fits(file, pattern)), None)
        for file in files
    }
    for pattern in mixture:
        if not any(_fits(file, pattern) for file in files):
            names = ", ".join(files[:5]) + (", ..." if len(files) > 5 else "")
            raise InputError(
                f"data.mixture: {pattern!r} fits no training file; there are {names}"
            )
    return {
        file: 1.0 if pattern is None else float(mixture[pattern])
        for file, pattern in patterns.items()
    }


def repeat_files(
    files: Sequence[str], mixture: Mapping[str, float]
) -> list[tuple[str, float]]:
    """Repeat files of running text as often as the mixture says.

    Returns:
        Files, each with the share of its lines to read from the first one on: 1, or
        less of a file's last time.

    Raises:
        InputError: A pattern fits no file, or nothing is left.
    """
    repeated: list[tuple[str, float]] = []
    for file, share in shares_of(mixture, files).items():
        repeated += [(file, 1.0)] * int(share)
        if share % 1:
            repeated.append((file, share % 1))
    if not repeated:
        raise InputError(
            f"data.mixture is {dict(mixture)}: no text is left to train on; raise a share"
        )
    return repeated


def file_of(location: str) -> str:
    """Return the file of a location, `file:line`."""
    return location.rpartition(":")[0]


def _fits(file: str, pattern: str) -> bool:
    return fnmatchcase(file, pattern) or fnmatchcase(PurePath(file).name, pattern)


def _find_files(
    examples: Sequence[E], file: Callable[[int], str]
) -> Iterator[tuple[str, int, int]]:
    """Yield each file with its first row and the one behind its last.

    The steps double and halve, since a large set has few files.
    """
    first = 0
    while first < len(examples):
        name, step, row = file(first), 1, first
        while row + step < len(examples) and file(row + step) == name:
            row, step = row + step, 2 * step
        while step:
            if row + step < len(examples) and file(row + step) == name:
                row += step
            step //= 2
        yield name, first, row + 1
        first = row + 1


def _sample(first: int, end: int, share: float) -> Int[np.ndarray, " row"]:
    """Return rows as often as the share says: all of them, then a sample in order."""
    rows = np.arange(first, end)
    random = np.random.RandomState(Random(f"mixture {first} {end}").getrandbits(32))
    sample = np.sort(random.permutation(rows)[: round(share % 1 * len(rows))])
    return np.concatenate([*[rows] * int(share), sample])
