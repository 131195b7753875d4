"""Rows of a file with their location, and the policy for bad records."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.data.splits import Splits
from regard.errors import InputError

log = logging.getLogger(__name__)

SKIP = "--set data.skip_bad=true"
"""The option of training that leaves bad records out."""
ALIKE = 0.6
"""The least likeness of a column that is proposed for a missing one."""


@dataclass(frozen=True)
class Row:
    """A record as texts.

    Attributes:
        fields: The texts, in the order of the requested columns.
        place: The location of the record, `file:line`.
        alternatives: Further items of the last value, if it is a list.
        listed: Whether the last value is a list.
        split: The value in the column that says of which set the row is.
    """

    fields: tuple[str, ...]
    place: str
    alternatives: tuple[str, ...] = ()
    listed: bool = False
    split: str = ""


class MissingColumns(InputError):
    """The error of a table that lacks columns.

    Attributes:
        names: The missing columns.
        available: The columns of the table.
        numbered: Whether columns can go by number too.
        advice: What to do about them.
        keys: The keys of a run file that name the columns.
    """

    def __init__(
        self,
        path: object,
        names: Sequence[str],
        available: Iterable[str],
        numbered: bool = False,
    ) -> None:
        self.path = path
        self.names = list(names)
        self.available = list(available)
        self.numbered = numbered
        self.advice = ""
        self.keys: Sequence[str] = ()
        super().__init__(path, self.names, self.available)

    def __str__(self) -> str:
        missing = " and ".join(map(repr, self.names))
        available = ", ".join(repr(name[:40]) for name in self.available[:8]) or "none"
        advice = f"; {self.advice}" if self.advice else ""
        path = f"{self.path}: " if self.path else ""
        return f"{path}no column {missing}, there are {available}{advice}"

    def closest(self, name: str, exclude: Collection[str] = ()) -> str | None:
        """Return the available column most like a name; None if none is alike.

        A column whose last word is the name comes first, such as `comment_text` for
        `text`. Of a nested key its last part counts too. Columns of ids are like none.
        """
        columns = {}
        for column in self.available:
            last_word = re.split(r"[\W_]+", column.casefold())[-1]
            if column in exclude or last_word == "id":
                continue
            if last_word == name.casefold():
                return column
            columns[column.rpartition(".")[2].casefold()] = column
            columns[column.casefold()] = column
        matches = get_close_matches(name.casefold(), columns, 1, ALIKE)
        return columns[matches[0]] if matches else None


class BadRecord(InputError):
    """The error of a bad record.

    Attributes:
        fault: The location and what is wrong.
        option: The option that leaves such records out.
    """

    def __init__(self, fault: str, option: str = SKIP) -> None:
        super().__init__(fault, option)
        self.fault = fault
        self.option = option

    def __str__(self) -> str:
        correct = "" if ";" in self.fault else "; correct it"
        return f"{self.fault}{correct}, or leave such records out with {self.option}"


class RowCollector:
    """The count of the good and the bad records of a file.

    A bad record raises BadRecord, or is skipped and counted with `skip_bad`.
    """

    def __init__(self, path: str | Path, skip_bad: bool, option: str = SKIP) -> None:
        self.path = path
        self.skip_bad = skip_bad
        self.option = option
        self.kept = 0
        self.skipped = 0
        self.first = ""
        self.missing: MissingColumns | None = None

    def row(
        self,
        number: int,
        fields: Sequence[str],
        alternatives: Sequence[str] = (),
        *,
        listed: bool = False,
    ) -> Row:
        """Count a row and return it."""
        self.kept += 1
        return Row(tuple(fields), f"{self.path}:{number}", tuple(alternatives), listed)

    def refuse(self, number: int, reason: str) -> None:
        """Refuse the record in a line."""
        self.refuse_record(f"{self.path}:{number}: {reason}")

    def refuse_record(self, fault: str) -> None:
        """Refuse a record by a message with its location."""
        if not self.skip_bad:
            raise BadRecord(fault, self.option)
        self.skipped += 1
        self.first = self.first or fault

    def lack(self, number: int, names: Sequence[str], available: Iterable[str]) -> None:
        """Refuse a record that lacks columns; the first one shows that all do."""
        error = MissingColumns(f"{self.path}:{number}", names, available)
        if not self.kept and not self.skip_bad:
            raise error
        self.missing = self.missing or error
        self.refuse_record(str(error))

    def check(self) -> None:
        """Log how many records were skipped. Raises InputError if none was kept."""
        total = self.kept + self.skipped
        if not self.kept and self.missing:
            raise self.missing
        if not self.kept:
            first = f", all skipped (first: {self.first})" if total else ""
            raise InputError(f"{self.path}: no usable record: {total} records{first}")
        if self.skipped:
            log.warning(
                "%s: skipped %d of %d records (first: %s)",
                self.path,
                self.skipped,
                total,
                self.first,
            )


@runtime_checkable
class HasLocation(Protocol):
    """A record with its `file:line`, or the path of its file."""

    @property
    def place(self) -> str: ...


@runtime_checkable
class SkipsBadRows(Protocol):
    """A `data:` section with the key `skip_bad`."""

    @property
    def skip_bad(self) -> bool: ...


P = TypeVar("P", bound=HasLocation)
V = TypeVar("V")


def iterate_converted(
    records: Iterable[P], convert: Callable[[P], V], path: Any, *, skip_bad: bool
) -> Iterator[V]:
    """Yield what `convert` makes of records; one for which it raises is bad.

    Raises:
        BadRecord: `convert` raises InputError, without `skip_bad`.
        InputError: No record is good.
    """
    collector = RowCollector(path, skip_bad)
    for record in records:
        try:
            value = convert(record)
        except InputError as error:
            fault = str(error).removeprefix(f"{record.place}: ")
            collector.refuse_record(f"{record.place}: {fault}")
            continue
        collector.kept += 1
        yield value
    collector.check()


def convert_files(
    files: Iterable[Any],
    read: Callable[[str], Iterable[P]],
    convert: Callable[[P], V],
    *,
    skip_bad: bool,
) -> list[V]:
    """Return what `convert` makes of the records of files, as `iterate_converted`."""
    return [
        value
        for path in map(str, files)
        for value in iterate_converted(read(path), convert, path, skip_bad=skip_bad)
    ]


def convert_sets(splits: Splits[P], convert: Callable[[P], V], data: Any) -> Splits[V]:
    """Return what `convert` makes of the records of a section's sets.

    Raises:
        BadRecord: As `iterate_converted`, if the section has the key `skip_bad`.
        InputError: A record is bad, or all of a set are.
    """
    if not isinstance(data, SkipsBadRows):
        return Splits(*(list(map(convert, part)) for part in splits.by_name.values()))
    parts = [
        list(iterate_converted(part, convert, f"{name} set", skip_bad=data.skip_bad))
        if part
        else []
        for name, part in splits.by_name.items()
    ]
    return Splits(*parts)
