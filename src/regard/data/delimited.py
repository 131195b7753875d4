"""Tables of columns between delimiters: CSV, TSV, and what spreadsheets call by these names."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.bad_records import MissingColumns, Row, RowCollector
from regard.data.headers import FIRST_LINE, check_no_header, is_row
from regard.data.lines import DEFAULT_LIMITS, Limits, Line, placed_lines, with_text
from regard.errors import InputError

Columns = tuple[str, ...] | tuple[int, ...]
"""The columns to read: names from a header line, or numbers from 1 for a file without a header."""
DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
TYPED = {"\t": "\\t"}
"""Delimiters that are hard to type, as an option or a run file has them."""
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
    **layout: Any,
) -> list[Row]:
    """Read tab-separated columns. A quotation mark is an ordinary character, so no row can swallow the next, unless
    `quoting`. Another delimiter is found as by `read_csv`; `layout` as there."""
    return list(stream_tsv(path, columns, limits, skip_bad=skip_bad, **layout))


def read_csv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> list[Row]:
    """Read comma-separated columns, quoted with `"`. An unclosed quote is an error even with `skip_bad`. Without
    `delimiter` it is a comma, or the only one with which the first line has the columns. The other keys of `layout`
    are `quoting`, and in `lists` the columns that may be empty."""
    return list(stream_csv(path, columns, limits, skip_bad=skip_bad, **layout))


def stream_tsv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> Iterator[Row]:
    """The rows of `read_tsv`, one in memory at a time."""
    return _rows(
        path, columns, limits, RowCollector(path, skip_bad), preference("tsv", **layout)
    )


def stream_csv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> Iterator[Row]:
    """The rows of `read_csv`, one in memory at a time."""
    return _rows(
        path, columns, limits, RowCollector(path, skip_bad), preference("csv", **layout)
    )


def preference(
    kind: str,
    *,
    delimiter: str | None = None,
    quoting: bool | None = None,
    lists: tuple[str | int, ...] = (),
) -> "Preference":
    """The settings of the kind `tsv` or `csv`, where no others are stated."""
    usual = "," if kind == "csv" else "\t"
    return Preference(
        usual, delimiter, kind == "csv" if quoting is None else quoting, lists
    )


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
        return (
            next(csv.reader([line], delimiter=delimiter), [""])
            if self.quoting
            else line.split(delimiter)
        )

    def of(self, lines: Sequence[str], columns: Columns) -> str:
        """The delimiter: the stated one, or the usual one; or another if it is the only one that the columns fit."""
        if self.stated is not None:
            return self.stated
        plain = replace(
            self, quoting=False
        )  # a quote that is not closed hides delimiters, and is refused when read
        fits = (
            [each for each in DELIMITERS if how._fits(lines, columns, each)]
            for how in (self, plain)
        )
        fit = next(filter(None, fits), [])
        return self.usual if self.usual in fit or len(fit) != 1 else fit[0]

    def _fits(self, lines: Sequence[str], columns: Columns, delimiter: str) -> bool:
        found = self.split(lines[0], delimiter)
        if isinstance(columns[0], str):
            found = _header(columns, found)
            return all(column in found for column in columns)
        counts = {len(self.split(line, delimiter)) for line in islice(lines, COMPARED)}
        even = (
            min(counts) == len(found)
            if may_be_longer(columns, delimiter)
            else len(counts) == 1
        )
        return even and len(found) >= max(map(int, columns))

    def probable(self, lines: Sequence[str], chosen: str) -> str:
        """The delimiter that lines probably have, for messages: the chosen one, or another one that divides all lines
        into equally many fields, or the one that divides the first line best."""
        plain = [
            line.replace("\r", " ") for line in lines
        ]  # a carriage return ends a record for the module csv
        counts = {
            each: [len(self.split(line, each)) for line in plain]
            for each in (chosen, *DELIMITERS)
        }
        even = [
            each
            for each, found in counts.items()
            if len(set(found)) == 1 and found[0] > 1
        ]
        if even:
            return even[0]
        return (
            chosen
            if counts[chosen][0] > 1
            else max(counts, key=lambda each: counts[each][0])
        )


def may_be_longer(columns: Columns, delimiter: str) -> bool:
    """Whether records may have further fields than the first one: where columns have numbers and tabs stand between
    them, as in STS-Benchmark. A comma too many means a quotation mark too few."""
    return isinstance(columns[0], int) and delimiter == "\t"


class Record(NamedTuple):
    """The fields of a record: the number of its first line from 1, and the offset of that line in the content."""

    number: int
    offset: int
    fields: list[str]


@dataclass(frozen=True)
class Layout:
    """How the records of a delimited table become rows.

    columns, chosen: the columns that are read, and their places in a record.
    width, line: how many fields a record has, as in that line.
    optional: the columns that may be empty.
    """

    columns: Columns
    chosen: Sequence[int]
    width: int
    line: int
    delimiter: str
    quoting: bool
    optional: tuple[str | int, ...] = ()

    def records(self, path: str | Path, lines: Iterable[Line]) -> Iterator[Record]:
        """The records of lines."""
        return _records(path, lines, self.delimiter, self.quoting)

    def row(self, record: Record, collector: RowCollector) -> Row | None:
        """The row of a record; None for one that is refused: it has not `width` fields, or more where it
        `may_be_longer`, or an empty one."""
        number, _, fields = record
        longer = len(fields) > self.width and may_be_longer(
            self.columns, self.delimiter
        )
        if len(fields) != self.width and not longer:
            found = f"{len(fields)} columns" if any(fields) else "a blank line"
            collector.refuse(
                number, f"{found}, expected {self.width} columns as in line {self.line}"
            )
            return None
        cells = [fields[place] for place in self.chosen]
        pairs = zip(self.columns, cells, strict=True)
        empty = [
            str(name)
            for name, text in pairs
            if not text.strip() and name not in self.optional
        ]
        if empty:
            collector.refuse(number, f"column {' and '.join(empty)} is empty")
            return None
        return collector.row(number, cells)


def begun(
    path: str | Path,
    lines: Iterable[Line],
    columns: Columns,
    collector: RowCollector,
    how: Preference,
) -> tuple[Layout, Iterator[Record]]:
    """The layout of a table by its first lines, and its records without the header. Raises InputError and
    MissingColumns."""
    lines = with_text(path, lines)
    head = list(islice(lines, COMPARED))
    if (stated := SPREADSHEET.fullmatch(head[0].text)) and len(head) > 1:
        head, how = head[1:], replace(how, stated=how.stated or stated[1])
    texts = [line.text for line in head]
    delimiter = how.of(texts, columns)
    records = _records(path, chain(head, lines), delimiter, how.quoting)
    first = next(records)
    number, _, fields = first
    if isinstance(columns[0], int):
        chosen = _numbered(
            columns,
            fields,
            f"{path}:{number}",
            how.probable(texts, delimiter),
            delimiter,
        )
        check_no_header([fields[place] for place in chosen], f"{path}:{number}")
        records = chain([first], records)
    else:
        header = how.split(texts[0], how.probable(texts, delimiter))
        chosen = _named(columns, fields, header, number, collector)
    return Layout(
        columns, chosen, len(fields), number, delimiter, how.quoting, how.optional
    ), records


def _rows(
    path: str | Path,
    columns: Columns,
    limits: Limits,
    collector: RowCollector,
    how: Preference,
) -> Iterator[Row]:
    # Closed here, since an error that is kept would keep the file open.
    with closing(placed_lines(path, limits)) as lines:
        layout, records = begun(path, lines, columns, collector, how)
        yield from (
            row
            for record in records
            if (row := layout.row(record, collector)) is not None
        )
    collector.check(collector.kept)


def _numbered(
    columns: Columns, first: list[str], place: str, probable: str, delimiter: str
) -> list[int]:
    """The indices of columns by number. Raises InputError for one that the first line lacks."""
    for column in map(int, columns):
        if not 1 <= column <= len(first):
            option = f"--set data.delimiter='{TYPED.get(probable, probable)}'"
            hint = (
                f"; between them stands {named(probable)}: {option}"
                if probable != delimiter
                else ""
            )
            raise InputError(
                f"{place}: {len(first)} columns, so there is no column {column}; columns count from 1{hint}"
            )
    return [int(column) - 1 for column in columns]


def _named(
    columns: Columns,
    first: list[str],
    header: list[str],
    number: int,
    collector: RowCollector,
) -> list[int]:
    """The indices of columns by name. Raises InputError for one that is twice in the header, and MissingColumns, with
    the names of the probable `header`."""
    names = list(map(str, columns))
    first, header = _header(columns, first), _header(columns, header)
    if lacking := [name for name in names if name not in first]:
        absent = [name for name in names if name not in header]
        where = FIRST_LINE if is_row(header) else "header"
        collector.lack(
            number, MissingColumns(absent or lacking, header, where), sure=True
        )
    for name in names:
        if first.count(name) > 1:
            times = first.count(name)
            raise InputError(
                f"{collector.path}:{number}: the header has column {name!r} {times} times; rename one"
            )
    return [first.index(name) for name in names]


def _header(columns: Columns, cells: Sequence[str]) -> list[str]:
    """The names in a header, without the blanks around those of the columns that are not there with them."""
    lacking = set(columns) - set(cells)
    return [cell.strip() if cell.strip() in lacking else cell for cell in cells]


def _records(
    path: str | Path, lines: Iterable[Line], delimiter: str, quoting: bool
) -> Iterator[Record]:
    if not quoting:
        return (
            Record(line.number, line.offset, line.text.split(delimiter))
            for line in lines
        )
    return _quoted_records(path, lines, delimiter)


def _quoted_records(
    path: str | Path, lines: Iterable[Line], delimiter: str
) -> Iterator[Record]:
    current: list[Line] = []  # of the record that is being read

    def whole() -> Iterator[str]:
        for line in lines:
            current.append(line)
            yield (
                line.text.replace("\r", "\0") + "\n"
            )  # csv ends a line at \r; no line contains NUL

    reader = csv.reader(whole(), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            yield Record(
                *current[0][:2], [field.replace("\0", "\r") for field in fields]
            )
            current.clear()
    except csv.Error as error:
        opening = current[0].number + _bad_quote(
            [line.text for line in current], re.escape(delimiter)
        )
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
