"""Tables of texts: TSV without quoting, CSV, JSON lines. Each may be a .gz file.

A bad record (wrong number of columns, blank, wrong type) raises InputError with file and line. With `skip_bad` it is
skipped, and one warning per file counts such records on the logger `regard.data.bad_records`."""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any

from regard.config.registry import Registry
from regard.data.bad_records import Row, RowCollector
from regard.data.lines import DEFAULT_LIMITS, Limits, read_lines
from regard.errors import InputError

Columns = tuple[str, ...] | tuple[int, ...]
"""The columns to read: names from a header line, or numbers from 1 for a file without a header."""

_CSV_FIELD = re.compile(r'"[^"]*(?:""[^"]*)*"(?=,|\n|\Z)|(?!")[^,\n]*')


def read_tsv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Row]:
    """Read tab-separated columns. A quotation mark is an ordinary character, so no row can swallow the next."""
    rows = (line.split("\t") for line in read_lines(path, limits))
    return _from_rows(enumerate(rows, 1), columns, RowCollector(path, skip_bad))


def read_csv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Row]:
    """Read comma-separated columns, quoted with `"`. An unclosed quote is an error even with `skip_bad`."""
    return _from_rows(_csv_rows(path, limits), columns, RowCollector(path, skip_bad))


def read_jsonl(
    path: str | Path,
    columns: tuple[str, ...],
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    numbers: tuple[str, ...] = (),
) -> list[Row]:
    """Read one JSON object per line. `columns` name the keys, whose values must be strings. The last value may be a
    list: its first item is the field, the rest are the row's `others`. Values of the keys `numbers` may also be
    numbers, read as text. Other keys are ignored."""
    collector = RowCollector(path, skip_bad)
    for number, line in enumerate(read_lines(path, limits), 1):
        record, fault = parse_json(line)
        record = {**record, **_written(record, numbers)} if isinstance(record, dict) else record
        fault = fault or _field_fault(record, columns, line)
        if fault:
            collector.refuse(number, fault)
        else:
            last, *others = _several(record[columns[-1]])
            fields = [*(record[column] for column in columns[:-1]), last]
            collector.add(number, fields, others, listed=isinstance(record[columns[-1]], list))
    return collector.finish()


READERS = Registry(
    "regard.data", {"tsv": "tables:read_tsv", "csv": "tables:read_csv", "jsonl": "tables:read_jsonl"}, "regard.readers"
)
"""Readers of tables by the ending of a file's name: `read(path, columns, *, skip_bad) -> list[Row]`."""


def kinds() -> str:
    """The endings of file names that have a reader."""
    return ", ".join(f".{name}" for name in READERS)


def read_table(
    path: str | Path, columns: Columns, *, skip_bad: bool = False, numbers: tuple[str | int, ...] = ()
) -> list[Row]:
    """Read a table of the kind that its name ends with. In JSON, values of the columns `numbers` may be numbers.
    Raises InputError as its reader and `kind` do."""
    more: dict[str, Any] = {"numbers": numbers} if kind(path) == "jsonl" else {}
    return READERS[kind(path)](path, columns, skip_bad=skip_bad, **more)


def kind(path: str | Path) -> str:
    """The kind of a table by the ending of its name. Raises InputError for an unknown kind."""
    found = suffix(path)
    if found not in READERS:
        ending = f".{found}" if found else ""
        raise InputError(f"{path}: unknown kind of table {ending!r}; expected {kinds()}, or these with .gz")
    return found


def suffix(path: str | Path) -> str:
    """The ending of a file's name without .gz and without the dot."""
    return PurePath(str(path).removesuffix(".gz")).suffix.removeprefix(".")


def _from_rows(rows: Iterable[tuple[int, list[str]]], columns: Columns, collector: RowCollector) -> list[Row]:
    rows = iter(rows)
    number, first = next(rows)
    place = f"{collector.path}:{number}"
    if isinstance(columns[0], int):
        chosen = [_numbered_column(int(column), len(first), place) for column in columns]
        rows = _chain((number, first), rows)
    else:
        chosen = [_named_column(str(column), first, place) for column in columns]
    for number, fields in rows:
        if len(fields) != len(first):
            found = f"{len(fields)} columns" if any(fields) else "a blank line"
            collector.refuse(number, f"{found}, expected {len(first)} columns as in line 1")
            continue
        cells = [fields[place] for place in chosen]
        empty = [str(name) for name, text in zip(columns, cells, strict=True) if not text.strip()]
        if empty:
            collector.refuse(number, f"column {empty[0]} is empty")
        else:
            collector.add(number, cells)
    return collector.finish()


def _chain(first: tuple[int, list[str]], rest: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _numbered_column(column: int, width: int, place: str) -> int:
    if not 1 <= column <= width:
        raise InputError(f"{place}: {width} columns, so there is no column {column}; columns count from 1")
    return column - 1


def _named_column(column: str, header: list[str], place: str) -> int:
    if column not in header:
        raise InputError(f"{place}: no column {column!r} in the header, which has {_listed(column, header)}")
    if header.count(column) > 1:
        raise InputError(f"{place}: the header has column {column!r} {header.count(column)} times; rename one")
    return header.index(column)


def _listed(name: str, names: Iterable[str]) -> str:
    """The first few names, and the closest match to `name`."""
    names = list(names)
    near = get_close_matches(name, names, 1)
    shown = ", ".join(repr(each[:40]) for each in names[:8]) + (", ..." if len(names) > 8 else "")
    return (shown or "none") + (f"; did you mean {near[0]!r}?" if near else "")


def _csv_rows(path: str | Path, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    lines = read_lines(path, limits)
    # csv ends a line at \r; NUL, which no line contains, stands in for it
    reader = csv.reader((line.replace("\r", "\0") + "\n" for line in lines), strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, [field.replace("\0", "\r") for field in fields]
            start = reader.line_num + 1
    except csv.Error as error:
        opening = start + _bad_quote(lines[start - 1 :])
        raise InputError(f"{path}:{opening}: the quote opened here is not closed properly ({error})") from error


def _bad_quote(lines: list[str]) -> int:
    """The index of the line with the unclosed quote: the first place that is no CSV field."""
    text, position = "\n".join(lines), 0
    while position <= len(text):
        field = _CSV_FIELD.match(text, position)
        if field is None:
            return text.count("\n", 0, position)
        position = field.end() + 1
    return 0


def parse_json(line: str) -> tuple[Any, str | None]:
    """The parsed value, or None and the error."""
    try:
        return json.loads(line), None
    except json.JSONDecodeError as error:
        return None, f"column {error.colno}: not valid JSON ({error.msg}); is the line cut off?"
    except (ValueError, RecursionError) as error:
        return None, f"column 1: JSON that cannot be read ({error})"


def _field_fault(record: Any, columns: tuple[str, ...], line: str) -> str | None:
    if not isinstance(record, dict):
        return f"column 1: expected an object with {' and '.join(map(repr, columns))}, found {type(record).__name__}"
    for column in columns:
        if column not in record:
            return f"column 1: no key {column!r} in the object, which has {_listed(column, record)}"
        at = max(line.find(json.dumps(column)), 0) + 1
        for value in _several(record[column]) if column == columns[-1] else [record[column]]:
            if not isinstance(value, str):
                return f"column {at}: {column!r} is {type(value).__name__}, expected text"
            if not value.strip():
                return f"column {at}: {column!r} is empty"
    return None


def _written(record: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The numbers under these names, as text."""
    found = {name: record.get(name) for name in names}
    return {name: str(value) for name, value in found.items() if type(value) in (int, float)}


def _several(value: Any) -> list[Any]:
    """The items of a non-empty list, or any other value as a single item."""
    return value if isinstance(value, list) and value else [value]
