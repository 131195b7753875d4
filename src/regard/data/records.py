"""Records with keys: JSON lines, JSON arrays, Parquet, Arrow and rows in memory."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.data.files import (
    DEFAULT_LIMITS,
    Limits,
    iterate_lines,
    read_lines,
    require_text,
)
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.errors import InputError, quote

ONE_LINE = Limits(max_line=2**28)
"""A published JSON file is a single line."""
CUT_OFF = "; is the line cut off?"
ABSENT = object()
ITEM = "\x1f"
"""The end of each item of a list in a field, the unit separator of ASCII."""


def read_jsonl(
    path: str | Path,
    columns: tuple[str, ...],
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Yield one row for each line, a JSON object, with one in memory at a time.

    Args:
        path: The file.
        columns: The keys of the fields, whose values must be texts. The last value may be
            a list: its first item is the field, the rest are the row's `others`.
        limits: What a file may expand to.
        skip_bad: Whether bad records are skipped and counted.
        numbers: Keys whose values may also be numbers, read as text.
        lists: Keys whose values may be empty, or lists of texts or numbers.

    Raises:
        InputError: A record is bad, or the file cannot be read.
    """
    with closing(iterate_lines(path, limits)) as lines:
        parsed = (
            (line.number, line.text, *parse_json(line.text))
            for line in require_text(path, lines)
        )
        yield from _rows(parsed, columns, RowCollector(path, skip_bad), numbers, lists)


def read_json(
    path: str | Path,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Read a JSON array of objects as `read_jsonl` reads its lines. Places count the objects from 1."""
    parsed = (
        (number, "", record, None)
        for number, record in enumerate(list_of_objects(path), 1)
    )
    return _rows(parsed, columns, RowCollector(path, skip_bad), numbers, lists)


def list_of_objects(path: str | Path) -> list[Any]:
    """The list in a JSON file, or the annotations of one of COCO's form. Raises InputError for another file."""
    records, fault = parse_document(path)
    if (
        not fault
        and isinstance(records, dict)
        and {"images", "annotations"} <= records.keys()
    ):
        return join_annotations(records, path)
    if fault or not isinstance(records, list):
        found = (fault or "is no list").removesuffix(CUT_OFF)
        raise InputError(
            f"{path}: {found}; expected a list of objects; one a line is .jsonl"
        )
    return records


def parse_document(path: str | Path) -> tuple[Any, str | None]:
    """The value in a JSON file, or None and the error. Raises InputError for a file with an object a line."""
    lines = read_lines(path, ONE_LINE)
    found, fault = parse_json("\n".join(lines))
    if fault and len(lines) > 1 and isinstance(parse_json(lines[0])[0], Mapping):
        name = Path(path).name.replace(".json", ".jsonl")
        raise InputError(
            f"{path}: has an object a line, which is JSON lines; rename it to {name}"
        )
    return found, fault


def join_annotations(content: Mapping[str, Any], path: str | Path) -> list[Any]:
    """The annotations of a file of COCO's form (Lin 2014, 1405.0312), such as captions, each with the fields of its
    image, such as `file_name`. Raises InputError for one without an image."""
    try:
        images = {item["id"]: item for item in content["images"]}
        return [images[item["image_id"]] | item for item in content["annotations"]]
    except (LookupError, TypeError) as error:
        raise InputError(
            f"{path}: has COCO's 'images' and 'annotations', but {error} is missing or of another form; expected an "
            "'id' of each image, and the 'image_id' of each annotation"
        ) from error


def records_to_rows(
    records: Iterable[Any],
    columns: tuple[str, ...],
    collector: RowCollector,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """The rows of mappings, which are read as those of JSON are."""
    parsed = ((number, "", record, None) for number, record in enumerate(records, 1))
    return _rows(parsed, columns, collector, numbers, lists)


def parse_json(line: str) -> tuple[Any, str | None]:
    """The parsed value, or None and the error."""
    try:
        return json.loads(line), None
    except json.JSONDecodeError as error:
        return None, f"character {error.colno}: not valid JSON ({error.msg}){CUT_OFF}"
    except (ValueError, RecursionError) as error:
        return None, f"character 1: JSON that cannot be read ({error})"


def parse_object(line: str, form: str) -> tuple[Any, str]:
    """The object of a line that a user types, or None, and the error with the `form` that the object has."""
    found, fault = parse_json(line)
    if fault and not line.lstrip().startswith("{"):
        fault = f"got {quote(line)}"
    return (
        found,
        f"{fault.removesuffix(CUT_OFF)}; expected {form}"
        if fault
        else f"expected {form}",
    )


def get_value(record: Mapping[str, Any], key: str) -> Any:
    """The value of a key, or of one inside: `review.body`, and `answers.0` in a list. ABSENT if there is none."""
    if key in record:
        return record[key]
    found: Any = record
    for step in key.split("."):
        if isinstance(found, Mapping):
            found = found.get(step, ABSENT)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return ABSENT
    return found


def name_classes(
    record: Mapping[str, Any], names: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """A record with the names of its classes for their numbers, by column; in a list each. A number without a name, as
    the -1 of `datasets` for no class, is None."""
    found = ((column, get_value(record, column), own) for column, own in names.items())
    return {
        **record,
        **{
            column: _class_name(value, own)
            for column, value, own in found
            if value is not ABSENT
        },
    }


def _class_name(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_class_name(item, names) for item in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None


def _rows(
    parsed: Iterable[tuple[int, str, Any, str | None]],
    columns: tuple[str, ...],
    collector: RowCollector,
    numbers: Iterable[str],
    lists: Iterable[str] = (),
) -> Iterator[Row]:
    """The rows of records, each with its number, its line and the fault of the line."""
    counted, listed = frozenset(numbers), frozenset(lists)
    for number, line, record, fault in parsed:
        values = []
        if _is_object(record):
            found = ((column, get_value(record, column)) for column in columns)
            values = [
                _join_items(value)
                if item in listed
                else _number_to_text(value, item in counted)
                for item, value in found
            ]
        if not fault and (
            lacking := [
                name
                for name, value in zip(columns, values, strict=False)
                if _lacks(value)
            ]
        ):
            collector.lack(
                number, MissingColumns(lacking, list(_keys(record)), "object")
            )
            continue
        fault = fault or _fault(columns, values, record, line, listed)
        if fault:
            collector.refuse(number, fault)
        else:
            last, *others = _list_items(values[-1])
            yield collector.row(
                number,
                [*values[:-1], last],
                others,
                listed=isinstance(values[-1], list),
            )
    collector.check(collector.kept)


def _lacks(value: Any) -> bool:
    """Whether a column has no value, or an object, a key in which is to be named."""
    return value is ABSENT or (isinstance(value, Mapping) and bool(value))


def _is_object(record: Any) -> bool:
    return isinstance(record, Mapping)


def _keys(record: Mapping[str, Any], before: str = "", depth: int = 3) -> Iterator[str]:
    """The keys of a record; those of an object inside as `outer.inner`."""
    for name, value in record.items():
        if isinstance(value, Mapping) and value and depth:
            yield from _keys(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}"


def _fault(
    columns: tuple[str, ...],
    values: list[Any],
    record: Any,
    line: str,
    listed: Collection[str],
) -> str | None:
    if not values:
        expected = " and ".join(map(repr, columns))
        place = "character 1: " if line else ""
        return (
            f"{place}expected an object with {expected}, found {type(record).__name__}"
        )
    for column, whole in zip(columns, values, strict=True):
        name = column if column in record else column.rpartition(".")[2]
        place = f"character {max(line.find(json.dumps(name)), 0) + 1}: " if line else ""
        if isinstance(whole, list) and not whole:
            return f"{place}{column!r} is an empty list, expected at least one text"
        for value in _list_items(whole) if column == columns[-1] else [whole]:
            if not isinstance(value, str):
                return f"{place}{column!r} is {type(value).__name__}, expected text{_hint(column, value)}"
            if not value.strip() and column not in listed:
                return f"{place}{column!r} is empty"
    return None


def _number_to_text(value: Any, number: bool) -> Any:
    """A number of a column of numbers as text; a tuple as a list, any other value as it is."""
    if (
        number
        and isinstance(value, Real)
        and not isinstance(value, bool)
        and value == value
    ):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _join_items(value: Any) -> Any:
    """A list of texts or numbers as its items, each with an end; nothing as an empty text; any other value as one that
    is no list."""
    if not isinstance(value, list | tuple):
        return "" if value is None else _number_to_text(value, number=True)
    items = [_number_to_text(item, number=True) for item in value]
    return (
        "".join(f"{item}{ITEM}" for item in items)
        if all(isinstance(item, str) for item in items)
        else value
    )


def _list_items(value: Any) -> list[Any]:
    """The items of a non-empty list, or any other value as a single item."""
    return value if isinstance(value, list) and value else [value]


def _hint(column: str, value: Any) -> str:
    """What a list of labels is for."""
    several = isinstance(value, list) and "label" in column.lower()
    return "; learn several labels by the recipe multi-label" if several else ""


MEMORY_SUFFIX = ".memory"


class Records(str):
    """Rows in memory by the keys of their columns. As text it is their name, which stands in a run file and in
    messages instead of the path of a table."""

    records: Sequence[Mapping[str, Any]]

    def __new__(cls, name: str, records: Sequence[Mapping[str, Any]]) -> "Records":
        found = super().__new__(cls, name + MEMORY_SUFFIX)
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
        name_classes(row, named) if isinstance(row, Mapping) else row for row in data
    ]
    return found if all(isinstance(item, Mapping) for item in found) else None


def read_memory(
    path: str,
    columns: tuple[str, ...],
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
    lists: tuple[str, ...] = (),
) -> Iterator[Row]:
    """Read rows in memory as `read_jsonl` reads its lines. Raises InputError for the name of rows that are no more."""
    collector = RowCollector(path, skip_bad)
    return records_to_rows(records_in_memory(path), columns, collector, numbers, lists)


def records_in_memory(path: str) -> Sequence[Mapping[str, Any]]:
    """The rows in memory of a name. Raises InputError for the name of rows that are no more."""
    if not isinstance(path, Records):
        raise InputError(
            f"{path}: were rows in memory, which are not saved with a run; give them again, or a file"
        )
    return path.records
