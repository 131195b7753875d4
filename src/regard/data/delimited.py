"""Tables of columns between delimiters: CSV, TSV, and what spreadsheets call by these names."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from regard.data.bad_records import MissingColumns, Row, RowCollector
from regard.data.headers import check_no_header
from regard.data.lines import DEFAULT_LIMITS, Limits, read_lines
from regard.errors import InputError

Columns = tuple[str, ...] | tuple[int, ...]
"""The columns to read: names from a header line, or numbers from 1 for a file without a header."""
DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
SPREADSHEET = re.compile(r"sep=(.)")
"""The first line by which Excel states the delimiter of a file."""
COMPARED = 100
"""The lines that must agree on the delimiter of a table without a header."""


def read_tsv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    delimiter: str | None = None,
    quoting: bool = False,
    lists: tuple[str | int, ...] = (),
) -> list[Row]:
    """Read tab-separated columns. A quotation mark is an ordinary character, so no row can swallow the next, unless
    `quoting`. Another delimiter is found as by `read_csv`."""
    return _read(path, columns, limits, RowCollector(path, skip_bad), Preference("\t", delimiter, quoting, lists))


def read_csv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    delimiter: str | None = None,
    quoting: bool = True,
    lists: tuple[str | int, ...] = (),
) -> list[Row]:
    """Read comma-separated columns, quoted with `"`. An unclosed quote is an error even with `skip_bad`. Without
    `delimiter` it is a comma, or the only one with which the first line has the columns."""
    return _read(path, columns, limits, RowCollector(path, skip_bad), Preference(",", delimiter, quoting, lists))


@dataclass(frozen=True)
class Preference:
    """The usual delimiter of a kind of file, the stated one, whether fields may be in quotation marks, and the columns
    that may be empty."""

    usual: str
    stated: str | None
    quoting: bool
    optional: tuple[str | int, ...] = ()

    def split(self, line: str, delimiter: str) -> list[str]:
        """The fields of one line."""
        return next(csv.reader([line], delimiter=delimiter), [""]) if self.quoting else line.split(delimiter)

    def of(self, lines: Sequence[str], columns: Columns) -> str:
        """The delimiter: the stated one, or the usual one; or another if it is the only one that the columns fit."""
        if self.stated is not None:
            return self.stated
        fit = [each for each in DELIMITERS if self._fits(lines, columns, each)]
        return self.usual if self.usual in fit or len(fit) != 1 else fit[0]

    def _fits(self, lines: Sequence[str], columns: Columns, delimiter: str) -> bool:
        found = self.split(lines[0], delimiter)
        if isinstance(columns[0], str):
            return all(column in found for column in columns)
        counts = {len(self.split(line, delimiter)) for line in islice(lines, COMPARED)}
        return len(counts) == 1 and len(found) >= max(map(int, columns))

    def probable(self, line: str, chosen: str) -> str:
        """The delimiter that a line probably has, for messages: the chosen one if it divides the line."""
        counts = {each: len(self.split(line, each)) for each in (chosen, *DELIMITERS)}
        return chosen if counts[chosen] > 1 else max(counts, key=lambda each: counts[each])


def _read(path: str | Path, columns: Columns, limits: Limits, collector: RowCollector, how: Preference) -> list[Row]:
    lines, skipped = read_lines(path, limits), 0
    if (stated := SPREADSHEET.fullmatch(lines[0])) and len(lines) > 1:
        lines, skipped, how = lines[1:], 1, replace(how, stated=how.stated or stated[1])
    delimiter = how.of(lines, columns)
    rows = _quoted_rows(path, lines, delimiter, skipped) if how.quoting else _plain_rows(lines, delimiter, skipped)
    number, first = next(rows)
    if isinstance(columns[0], int):
        chosen = _numbered(columns, first, f"{path}:{number}", how.probable(lines[0], delimiter), delimiter)
        check_no_header([first[place] for place in chosen], f"{path}:{number}")
        _collect(first, number, (len(first), number), columns, chosen, collector, how.optional)
    else:
        header = how.split(lines[0], how.probable(lines[0], delimiter))
        chosen = _named(columns, first, header, number, collector)
    for place, fields in rows:
        _collect(fields, place, (len(first), number), columns, chosen, collector, how.optional)
    return collector.finish()


def _collect(
    fields: list[str],
    number: int,
    expected: tuple[int, int],
    columns: Columns,
    chosen: list[int],
    collector: RowCollector,
    optional: tuple[str | int, ...],
) -> None:
    """Add a row, or refuse one that has not as many columns as `expected` of it, those of another line, or has an empty
    one that is not `optional`."""
    width, line = expected
    if len(fields) != width:
        found = f"{len(fields)} columns" if any(fields) else "a blank line"
        collector.refuse(number, f"{found}, expected {width} columns as in line {line}")
        return
    cells = [fields[place] for place in chosen]
    empty = [str(name) for name, text in zip(columns, cells, strict=True) if not text.strip() and name not in optional]
    if empty:
        collector.refuse(number, f"column {' and '.join(empty)} is empty")
    else:
        collector.add(number, cells)


def _numbered(columns: Columns, first: list[str], place: str, probable: str, delimiter: str) -> list[int]:
    """The indices of columns by number. Raises InputError for one that the first line lacks."""
    for column in map(int, columns):
        if not 1 <= column <= len(first):
            hint = f"; between them stands {named(probable)}: set data.delimiter" if probable != delimiter else ""
            raise InputError(
                f"{place}: {len(first)} columns, so there is no column {column}; columns count from 1{hint}"
            )
    return [int(column) - 1 for column in columns]


def _named(columns: Columns, first: list[str], header: list[str], number: int, collector: RowCollector) -> list[int]:
    """The indices of columns by name. Raises InputError for one that is twice in the header, and MissingColumns, with
    the names of the probable `header`."""
    names = list(map(str, columns))
    if lacking := [name for name in names if name not in first]:
        absent = [name for name in names if name not in header]
        collector.lack(number, MissingColumns(absent or lacking, header, "header"), sure=True)
    for name in names:
        if first.count(name) > 1:
            times = first.count(name)
            raise InputError(f"{collector.path}:{number}: the header has column {name!r} {times} times; rename one")
    return [first.index(name) for name in names]


def _plain_rows(lines: list[str], delimiter: str, skipped: int) -> Iterator[tuple[int, list[str]]]:
    return ((number, line.split(delimiter)) for number, line in enumerate(lines, 1 + skipped))


def _quoted_rows(path: str | Path, lines: list[str], delimiter: str, skipped: int) -> Iterator[tuple[int, list[str]]]:
    # csv ends a line at \r; NUL, which no line contains, stands in for it
    whole = (line.replace("\r", "\0") + "\n" for line in lines)
    reader = csv.reader(whole, delimiter=delimiter, strict=True)
    start = 1
    try:
        for fields in reader:
            yield start + skipped, [field.replace("\0", "\r") for field in fields]
            start = reader.line_num + 1
    except csv.Error as error:
        opening = start + skipped + _bad_quote(lines[start - 1 :], re.escape(delimiter))
        raise InputError(
            f"{path}:{opening}: the quote opened here is not closed properly ({error}); double a quotation mark inside "
            "a field, or set data.quoting=false if it is an ordinary character"
        ) from error


def _bad_quote(lines: list[str], mark: str) -> int:
    """The index of the line with the unclosed quote: the first place that is no CSV field."""
    pattern = re.compile(rf'"[^"]*(?:""[^"]*)*"(?={mark}|\n|\Z)|(?!")[^{mark}\n]*')
    text, position = "\n".join(lines), 0
    while position <= len(text):
        field = pattern.match(text, position)
        if field is None:
            return text.count("\n", 0, position)
        position = field.end() + 1
    return 0


def named(delimiter: str) -> str:
    """A delimiter in words."""
    return DELIMITERS.get(delimiter, repr(delimiter))
