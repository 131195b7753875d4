"""Rows of a file with their location, and the policy for bad records."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.data.splits import Splits
from regard.errors import InputError

_log = logging.getLogger(__name__)


SKIP = "--set data.skip_bad=true"
"""The option of training by which bad records are left out."""
ALIKE = 0.6
"""The likeness from which on a name is close to another one."""


@dataclass(frozen=True)
class Row:
    """The texts of a record in the order of the requested columns, and its `place`, `file:line`. If the last value is a
    list, its first item is the field and `others` are the rest."""

    fields: tuple[str, ...]
    place: str
    others: tuple[str, ...] = ()
    listed: bool = False


class MissingColumns(InputError):
    """A table lacks columns.

    names: those that it lacks. known: those that it has, which stand in the `where`: a header, an object, or a first
    line that looks like a row.
    keys: the keys of a run file that name its columns.
    """

    keys: tuple[str, ...] = ()

    def __init__(
        self,
        names: Sequence[str],
        known: Iterable[str],
        where: str,
        place: str = "",
        advice: str = "",
    ):
        self.names, self.known, self.where, self.place = (
            list(names),
            list(known),
            where,
            place,
        )
        found = " and ".join(filter(None, (self._absent(), *map(self._object, names))))
        near = [repr(close) for name in names if (close := self.closest(name))]
        advice = advice or (f"did you mean {' and '.join(near)}?" if near else "")
        super().__init__(f"{place}{found}{f'; {advice}' if advice else ''}")

    def _absent(self) -> str:
        """The names that are nowhere, and what is there; empty for none."""
        absent = [repr(name) for name in self.names if not self.inside(name)]
        if not absent:
            return ""
        *most, last = absent
        what = "key" if self.where == "object" else "column"
        lacking = f"no {what}{'s' if most else ''} {', '.join(most)}{' and ' if most else ''}{last}"
        return f"{lacking} in the {self.where}, which has {_list_names(self.known)}"

    def _object(self, name: str) -> str:
        """What is in the object of a name; empty for another value."""
        keys = [item.removeprefix(f"{name}.") for item in self.inside(name)]
        return f"{name!r} is an object with {_list_names(keys)}" if keys else ""

    def inside(self, name: str) -> list[str]:
        """The known keys in the object of a name, those called `text` first."""
        found = [
            item
            for item in self.known
            if self.where == "object" and item.startswith(f"{name}.")
        ]
        return sorted(found, key=lambda item: not item.endswith(".text"))

    def at(self, place: str) -> "MissingColumns":
        """The same at a place, `file:line`."""
        return MissingColumns(
            self.names, self.known, self.where, f"{place}: {self.place}"
        )

    def closest(self, name: str, besides: Collection[str] = ()) -> str | None:
        """The known name closest to a missing one, in its object, as a whole or by its last part, and the first of
        several as close; None where none is close. Those in `besides` are left out."""
        known = [name for name in self.known if name not in besides]
        if inside := [item for item in self.inside(name) if item in known]:
            return inside[0]
        last = {name.rpartition(".")[2].casefold(): name for name in reversed(known)}
        near = _nearest(name, known) or _nearest(name.casefold(), [*last][::-1])
        return near and last.get(near, near)

    def advised(
        self, advice: str, columns: Mapping[str, str | int] = MappingProxyType({})
    ) -> "MissingColumns":
        """The same with what to do, and the names in the order of `columns`, by the keys that name them."""
        order = [str(name) for name in columns.values()]
        names = sorted(
            self.names,
            key=lambda name: order.index(name) if name in order else len(order),
        )
        error = MissingColumns(names, self.known, self.where, self.place, advice)
        error.keys = tuple(columns)
        return error


def _nearest(name: str, names: Sequence[str]) -> str | None:
    """The first of the names most like one; None without any that is alike."""
    likeness = {item: SequenceMatcher(None, item, name).ratio() for item in names}
    near = max(likeness, key=likeness.__getitem__, default=None)
    return near if near is not None and likeness[near] >= ALIKE else None


class BadRecord(InputError):
    """A record is refused: its place and the `fault`, and the `option` that leaves such records out."""

    def __init__(self, fault: str, option: str = SKIP):
        self.fault, self.option = fault, option
        remedy = (
            " Correct it"
            if fault.endswith("?")
            else ""
            if ";" in fault
            else "; correct it"
        )
        super().__init__(f"{fault}{remedy}, or leave such records out with {option}")

    def advised(self, option: str) -> "BadRecord":
        """The same with the option of another command."""
        return BadRecord(self.fault, option)

    def __reduce__(self) -> tuple[type["BadRecord"], tuple[str, str]]:
        return BadRecord, (self.fault, self.option)


class RowCollector:
    """Collects rows. A bad record raises BadRecord with file and line and the `option` to skip it, or with `skip_bad`
    is counted and skipped."""

    def __init__(self, path: str | Path, skip_bad: bool, option: str = SKIP):
        self.path, self.skip_bad, self.option = path, skip_bad, option
        self.rows: list[Row] = []
        self.kept, self.skipped, self.first = 0, 0, ""
        self.missing: MissingColumns | None = None

    def add(
        self,
        number: int,
        fields: Sequence[str],
        others: Sequence[str] = (),
        *,
        listed: bool = False,
    ) -> None:
        self.rows.append(self.row(number, fields, others, listed=listed))

    def row(
        self,
        number: int,
        fields: Sequence[str],
        others: Sequence[str] = (),
        *,
        listed: bool = False,
    ) -> Row:
        """A row that is counted and not kept."""
        self.kept += 1
        return Row(tuple(fields), f"{self.path}:{number}", tuple(others), listed)

    def refuse(self, number: int, reason: str) -> None:
        self.refuse_record(f"{self.path}:{number}: {reason}")

    def refuse_record(self, fault: str) -> None:
        """Refuse a record by a message with its place."""
        if not self.skip_bad:
            raise BadRecord(fault, self.option)
        self.skipped, self.first = self.skipped + 1, self.first or fault

    def lack(self, number: int, missing: MissingColumns, *, sure: bool = False) -> None:
        """Refuse a record that lacks columns. Where it is the first, or `sure`, the columns have other names, and no
        record is to be skipped for that: raises MissingColumns."""
        error = missing.at(f"{self.path}:{number}")
        if sure or not (self.skip_bad or self.kept):
            raise error
        self.missing = self.missing or error
        self.refuse(number, str(missing))

    def finish(self) -> list[Row]:
        self.check(len(self.rows))
        return self.rows

    def check(self, kept: int) -> None:
        """Log how many records were skipped. Raises InputError where none was kept."""
        total = kept + self.skipped
        if not kept and self.missing is not None:
            raise self.missing
        if not kept:
            detail = (
                f", all skipped (first: {self.first})" if total else " below the header"
            )
            raise InputError(f"{self.path}: no usable record: {total} records{detail}")
        if self.skipped:
            _log.warning(
                "%s: skipped %d of %d records (first: %s)",
                self.path,
                self.skipped,
                total,
                self.first,
            )


def _list_names(names: Sequence[str]) -> str:
    """The first few names."""
    return (
        ", ".join(repr(name[:40]) for name in names[:8])
        + (", ..." if len(names) > 8 else "")
        or "none"
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


def convert_rows(
    records: Iterable[P], use: Callable[[P], V], path: Any, *, skip_bad: bool
) -> list[V]:
    """What `use` makes of the records of a file. One for which it raises InputError is bad: raises BadRecord, or with
    `skip_bad` counts and skips it. Raises InputError where none is left."""
    return list(iterate_converted(records, use, path, skip_bad=skip_bad))


def iterate_converted(
    records: Iterable[P], use: Callable[[P], V], path: Any, *, skip_bad: bool
) -> Iterator[V]:
    """What `convert_rows` returns, one after the other."""
    collector, kept = RowCollector(path, skip_bad), 0
    for item in _convert(records, use, collector):
        kept += 1
        yield item
    collector.check(kept)


def convert_files(
    files: Iterable[Any],
    read: Callable[[str], Iterable[P]],
    use: Callable[[P], V],
    *,
    skip_bad: bool,
) -> list[V]:
    """What `use` makes of the records that `read` finds in files. Raises as `convert_rows`."""
    sets = ((str(file), read(str(file))) for file in files)
    return [
        item
        for path, entry in sets
        for item in convert_rows(entry, use, path, skip_bad=skip_bad)
    ]


def convert_sets(splits: Splits[P], use: Callable[[P], V], data: Any) -> Splits[V]:
    """What `use` makes of the records of a section's sets, as `convert_rows`; those of one file are counted together. A
    section without the key `skip_bad` skips none."""
    if not isinstance(data, SkipsBadRows):
        return Splits(
            *([use(item) for item in entry] for entry in splits.named.values())
        )
    collectors: dict[str, RowCollector] = {}
    counts: dict[str, int] = {}
    found: list[Sequence[V]] = []
    for name, value in splits.named.items():
        path = _file_names(getattr(data, name, None) or getattr(data, "train", name))
        collector = collectors.setdefault(path, RowCollector(path, data.skip_bad))
        found.append(list(_convert(value, use, collector)))
        counts[path] = counts.get(path, 0) + len(found[-1])
        if value and not found[-1]:
            raise InputError(
                f"{path}: no usable record is left for the set {name} (first: {collector.first})"
            )
    for path, collector in collectors.items():
        if counts[path] or collector.skipped:
            collector.check(counts[path])
    return Splits(*found)


def _convert(
    records: Iterable[P], use: Callable[[P], V], collector: RowCollector
) -> Iterable[V]:
    for record in records:
        try:
            found = use(record)
        except InputError as error:
            text = str(error)
            collector.refuse_record(
                text if text.startswith(record.place) else f"{record.place}: {text}"
            )
            continue
        yield found


def _file_names(files: Any) -> str:
    """The file of a set, or several."""
    return ", ".join(files) if isinstance(files, tuple | list) else str(files)
