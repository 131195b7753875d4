"""Readers of pairs: parallel text, TSV without quoting, CSV, JSON lines. Each may be a .gz file.

All share one policy for a bad record (wrong number of columns, blank, wrong type): an InputError that names file and
line, or, with `skip_bad`, left out and counted in one warning per file on the logger `regard.data.collected`.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from regard.data.collected import Collected
from regard.data.lines import DEFAULT_LIMITS, Limits, read_lines
from regard.data.pair import Pair
from regard.errors import InputError

Columns = tuple[str, str] | tuple[int, int]
"""Which columns hold source and target: names from a header line, or numbers from 1 for a file without a header."""

_CSV_FIELD = re.compile(r'"[^"]*(?:""[^"]*)*"(?=,|\n|\Z)|(?!")[^,\n]*')


def read_parallel(
    source_path: str | Path, target_path: str | Path, limits: Limits = DEFAULT_LIMITS, *, skip_bad: bool = False
) -> list[Pair]:
    """Line i of one file with line i of the other. Raises InputError when their lengths differ or a side is blank."""
    sources, targets = read_lines(source_path, limits), read_lines(target_path, limits)
    if len(sources) != len(targets):
        blank = next((f"{path}:{number}" for path, lines in ((source_path, sources), (target_path, targets))
                      for number, line in enumerate(lines, 1) if not line.strip()), None)  # fmt: skip
        hint = f"first blank line at {blank}" if blank else "neither has a blank line"
        raise InputError(
            f"{source_path} has {len(sources)} lines, {target_path} has {len(targets)}; expected equally many ({hint})"
        )
    collected = Collected(source_path, skip_bad)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True), 1):
        if not source.strip():
            collected.refuse(number, "blank line, so the pair has no source")
        elif not target.strip():
            collected.refuse(number, f"its partner {target_path}:{number} is blank")
        else:
            collected.add(number, source, target)
    return collected.finish()


def read_tsv(
    path: str | Path,
    columns: Columns = ("source", "target"),
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Tab-separated columns. A quotation mark is a character like any other, so no row can swallow the next."""
    rows = (line.split("\t") for line in read_lines(path, limits))
    return _from_rows(enumerate(rows, 1), columns, Collected(path, skip_bad))


def read_csv(
    path: str | Path,
    columns: Columns = ("source", "target"),
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """Comma-separated columns, quoted with `"`. A quote that is never closed is an error even with `skip_bad`."""
    return _from_rows(_csv_rows(path, limits), columns, Collected(path, skip_bad))


def read_jsonl(
    path: str | Path,
    columns: tuple[str, str] = ("source", "target"),
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
) -> list[Pair]:
    """One JSON object a line; `columns` name the two keys, whose values must be text; the target's may be a list of
    them: the first is the target, the rest would be as right. Other keys are ignored."""
    collected = Collected(path, skip_bad)
    for number, line in enumerate(read_lines(path, limits), 1):
        record, fault = parse_json(line)
        fault = fault or _field_fault(record, columns, line)
        if fault:
            collected.refuse(number, fault)
        else:
            target, *others = _several(record[columns[1]])
            collected.add(number, record[columns[0]], target, tuple(others))
    return collected.finish()


def _from_rows(rows: Iterable[tuple[int, list[str]]], columns: Columns, collected: Collected) -> list[Pair]:
    rows = iter(rows)
    number, first = next(rows)
    place = f"{collected.path}:{number}"
    if isinstance(columns[0], int):
        chosen = [_numbered_column(int(column), len(first), place) for column in columns]
        rows = _chain((number, first), rows)
    else:
        chosen = [_named_column(str(column), first, place) for column in columns]
    for number, fields in rows:
        if len(fields) != len(first):
            found = f"{len(fields)} columns" if any(fields) else "a blank line"
            collected.refuse(number, f"{found}, expected {len(first)} columns as in line 1")
            continue
        source, target = fields[chosen[0]], fields[chosen[1]]
        empty = [str(name) for name, text in zip(columns, (source, target), strict=True) if not text.strip()]
        if empty:
            collected.refuse(number, f"column {empty[0]} is empty")
        else:
            collected.add(number, source, target)
    return collected.finish()


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
    """The first few names, and the one nearest to `name`."""
    names = list(names)
    near = get_close_matches(name, names, 1)
    shown = ", ".join(repr(each[:40]) for each in names[:8]) + (", ..." if len(names) > 8 else "")
    return (shown or "none") + (f"; did you mean {near[0]!r}?" if near else "")


def _csv_rows(path: str | Path, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    lines = read_lines(path, limits)
    # csv takes a \r for a line's end; NUL, which no line can hold, carries it through
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
    """The index of the line whose opening quote has no proper end: the first place that is no CSV field."""
    text, position = "\n".join(lines), 0
    while position <= len(text):
        field = _CSV_FIELD.match(text, position)
        if field is None:
            return text.count("\n", 0, position)
        position = field.end() + 1
    return 0


def parse_json(line: str) -> tuple[Any, str | None]:
    """The value, or what is wrong with it."""
    try:
        return json.loads(line), None
    except json.JSONDecodeError as error:
        return None, f"column {error.colno}: not valid JSON ({error.msg}); is the line cut off?"
    except (ValueError, RecursionError) as error:
        return None, f"column 1: JSON that cannot be read ({error})"


def _field_fault(record: Any, columns: tuple[str, str], line: str) -> str | None:
    if not isinstance(record, dict):
        return f"column 1: expected an object with {columns[0]!r} and {columns[1]!r}, found {type(record).__name__}"
    for column in columns:
        if column not in record:
            return f"column 1: no key {column!r} in the object, which has {_listed(column, record)}"
        at = max(line.find(json.dumps(column)), 0) + 1
        for value in _several(record[column]) if column == columns[1] else [record[column]]:
            if not isinstance(value, str):
                return f"column {at}: {column!r} is {type(value).__name__}, expected text"
            if not value.strip():
                return f"column {at}: {column!r} is empty"
    return None


def _several(value: Any) -> list[Any]:
    """The items of a list that has some; anything else by itself."""
    return value if isinstance(value, list) and value else [value]
