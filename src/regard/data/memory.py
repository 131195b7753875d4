"""Rows in memory in place of a file: lists of mappings, data frames, and data sets that yield mappings."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol, runtime_checkable

from regard.data.bad_records import Row, RowCollector
from regard.data.records import records_to_rows, with_class_names
from regard.errors import InputError

ENDING = ".memory"


class Records(str):
    """Rows in memory by the keys of their columns. As text it is their name, which stands in a run file and in
    messages instead of the path of a table."""

    records: Sequence[Mapping[str, Any]]

    def __new__(cls, name: str, records: Sequence[Mapping[str, Any]]) -> "Records":
        found = super().__new__(cls, name + ENDING)
        found.records = records
        return found

    def __str__(self) -> "Records":
        return self

    def __deepcopy__(self, memo: object) -> "Records":
        return self


@runtime_checkable
class Frame(Protocol):
    """A data frame of pandas or polars: its columns by name."""

    @property
    def columns(self) -> Iterable[Any]: ...

    def __getitem__(self, name: Any, /) -> Any: ...


def records_of(data: Any) -> Sequence[Mapping[str, Any]] | None:
    """The records of a list of mappings, a data frame, or a data set that yields mappings, such as those of `datasets`;
    None for anything else. Classes that a data set has as numbers with names are read by name."""
    if isinstance(data, str | bytes | Mapping):
        return None
    if isinstance(data, list | tuple):
        return data if data and isinstance(data[0], Mapping) else None
    if isinstance(data, Frame):
        names = [str(name) for name in data.columns]
        return [
            dict(zip(names, row, strict=True))
            for row in zip(*(data[name] for name in data.columns), strict=True)
        ]
    if not (isinstance(data, Iterable) and isinstance(data, Sized)):
        return None
    kinds: Any = getattr(data, "features", None) or {}
    inner = {
        name: getattr(kind, "feature", kind) for name, kind in kinds.items()
    }  # of a list what its items are
    named = {
        name: kind.names for name, kind in inner.items() if getattr(kind, "names", None)
    }
    found = [
        with_class_names(each, named) if isinstance(each, Mapping) else each
        for each in data
    ]
    return found if all(isinstance(each, Mapping) for each in found) else None


def read_memory(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> list[Row]:
    """Read rows in memory as `read_jsonl` reads its lines. Raises InputError for the name of rows that are no more."""
    return list(
        records_to_rows(
            kept_records(path), columns, RowCollector(path, skip_bad), numbers, lists
        )
    )


def kept_records(path: str) -> Sequence[Mapping[str, Any]]:
    """The rows in memory of a name. Raises InputError for the name of rows that are no more."""
    if not isinstance(path, Records):
        raise InputError(
            f"{path}: were rows in memory, which are not saved with a run; give them again, or a file"
        )
    return path.records
