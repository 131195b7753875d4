"""Tables of columns between delimiters: CSV and TSV."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.files import (
    DEFAULT_LIMITS,
    Limits,
    Line,
    iterate_lines,
    iterate_numbered_lines,
    require_text,
)
from regard.data.records import Records
from regard.data.rows import MissingColumns, Row, RowCollector
from regard.errors import InputError

NAMES = frozenset(
    word
    for line in (
        "text texts sentence sentence1 sentence2 sentence_a sentence_b review document doc content body title subject",
        "summary label labels class category target source target_text source_text src tgt input output question",
        "answer context premise hypothesis score rating sentiment gold gold_label caption captions image image_id file",
        "filename path id split fold de en fr es cs entailment_judgment relatedness_score",
    )
    for word in line.split(" ")
)
"""Names of columns, in lower case, that are hardly ever a text or a class of their own."""
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
SECOND = {"1": "2", "a": "b", "A": "B"}
"""The end of a column's name and that of the other text of a pair."""
PARTNERS = {
    "premise": "hypothesis",
    "question": "sentence",
    "query": "passage",
    "text": "text_pair",
    "first": "second",
}


FIRST_LINE = "first line"
"""Where names of columns were searched for, if it looks like a row and not like a header."""
LONGEST_NAME, WORDS = 80, 6
"""Characters that no name of a column exceeds; words that none has with a full stop or beside a number."""


def is_row(cells: Sequence[str]) -> bool:
    """Whether the first line of a table is probably a row: a cell is as long as a text, or one is a sentence and has a
    full stop or stands beside a number."""
    numbers = any(NUMBER.fullmatch(cell.strip()) for cell in cells)
    sentences = [cell.rstrip() for cell in cells if len(cell.split()) > WORDS]
    return any(len(cell) > LONGEST_NAME for cell in cells) or any(
        numbers or cell[-1] in ".!" for cell in sentences
    )


def check_no_header(cells: Sequence[str], place: str) -> None:
    """Raises InputError for a first line whose cells are all names of columns, where columns are numbered and each line
    is a row."""
    names = [cell.strip() for cell in cells]
    if len(set(names)) == len(names) and {name.lower() for name in names} <= NAMES:
        raise InputError(
            f"{place}: the line looks like a header ({', '.join(names)}) and not like a row; name the columns instead "
            "of numbering them, or remove the line"
        )


def column_names(path: str | Path) -> list[str]:
    """The cells of the first line of a delimited table, or the keys of the first object of JSON lines or of rows in
    memory; none of another file. Raises InputError for a file that cannot be read."""
    if isinstance(path, Records):
        return list(path.records[0])
    number, line = next(iterate_numbered_lines(path))
    if line.lstrip().startswith(("{", "[")):
        try:
            record: Any = json.loads(line)
        except (ValueError, RecursionError):
            return []
        return list(record) if isinstance(record, dict) else []
    try:
        return next(csv.reader([line], delimiter=delimiter_of(line)), [])
    except csv.Error as error:
        raise InputError(
            f"{path}:{number}: has no names of columns ({error}); save the table anew"
        ) from error


def delimiter_of(line: str) -> str:
    """The delimiter that a header most probably has: the most frequent of those that tables have."""
    return max(",;\t|", key=line.count)


def find_partner(column: str, names: Sequence[str]) -> str | None:
    """The column with the other text of a pair, by its name; None where no name says so."""
    other = (
        column[:-1] + SECOND[column[-1]]
        if column[-1:] in SECOND
        else PARTNERS.get(column.lower())
    )
    return other if other in names else None


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
) -> Iterator[Row]:
    """Yield the rows of tab-separated columns, as `read_csv` does.

    A quotation mark is an ordinary character, so no row can swallow the next, unless
    `quoting`.
    """
    how = delimiter_settings("tsv", **layout)
    return _rows(path, columns, limits, RowCollector(path, skip_bad), how)


def read_csv(
    path: str | Path,
    columns: Columns,
    limits: Limits = DEFAULT_LIMITS,
    *,
    skip_bad: bool = False,
    **layout: Any,
) -> Iterator[Row]:
    """Yield the rows of comma-separated columns, quoted with `"`.

    Args:
        path: The file.
        columns: The columns of the fields, by name or by number from 1.
        limits: What a file may expand to.
        skip_bad: Whether bad rows are skipped and counted.
        layout: `delimiter`, by default a comma or the only one with which the first line
            has the columns; `quoting`; and `lists`, the columns that may be empty.

    Raises:
        InputError: A row is bad, or a quote is not closed, even with `skip_bad`.
    """
    how = delimiter_settings("csv", **layout)
    return _rows(path, columns, limits, RowCollector(path, skip_bad), how)


def delimiter_settings(
    kind: str,
    *,
    delimiter: str | None = None,
    quoting: bool | None = None,
    lists: tuple[str | int, ...] = (),
) -> "DelimiterSettings":
    """The settings of the kind `tsv` or `csv`, where no others are stated."""
    usual = "," if kind == "csv" else "\t"
    return DelimiterSettings(
        usual, delimiter, kind == "csv" if quoting is None else quoting, lists
    )


@dataclass(frozen=True)
class DelimiterSettings:
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
            [
                delimiter
                for delimiter in DELIMITERS
                if how._fits(lines, columns, delimiter)
            ]
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
            item: [len(self.split(line, item)) for line in plain]
            for item in (chosen, *DELIMITERS)
        }
        even = [
            item
            for item, found in counts.items()
            if len(set(found)) == 1 and found[0] > 1
        ]
        if even:
            return even[0]
        return (
            chosen
            if counts[chosen][0] > 1
            else max(counts, key=lambda item: counts[item][0])
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


def detect_layout(
    path: str | Path,
    lines: Iterable[Line],
    columns: Columns,
    collector: RowCollector,
    how: DelimiterSettings,
) -> tuple[Layout, Iterator[Record]]:
    """The layout of a table by its first lines, and its records without the header. Raises InputError and
    MissingColumns."""
    lines = require_text(path, lines)
    head = list(islice(lines, COMPARED))
    if (stated := SPREADSHEET.fullmatch(head[0].text)) and len(head) > 1:
        head, how = head[1:], replace(how, stated=how.stated or stated[1])
    texts = [line.text for line in head]
    delimiter = how.of(texts, columns)
    records = _records(path, chain(head, lines), delimiter, how.quoting)
    first = next(records)
    number, _, fields = first
    if isinstance(columns[0], int):
        chosen = _number_columns(
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
        chosen = _find_named(columns, fields, header, number, collector)
    return Layout(
        columns, chosen, len(fields), number, delimiter, how.quoting, how.optional
    ), records


def _rows(
    path: str | Path,
    columns: Columns,
    limits: Limits,
    collector: RowCollector,
    how: DelimiterSettings,
) -> Iterator[Row]:
    # Closed here, since an error that is kept would keep the file open.
    with closing(iterate_lines(path, limits)) as lines:
        layout, records = detect_layout(path, lines, columns, collector, how)
        yield from (
            row
            for record in records
            if (row := layout.row(record, collector)) is not None
        )
    collector.check(collector.kept)


def _number_columns(
    columns: Columns, first: list[str], place: str, probable: str, delimiter: str
) -> list[int]:
    """The indices of columns by number. Raises InputError for one that the first line lacks."""
    for column in map(int, columns):
        if not 1 <= column <= len(first):
            option = f"--set data.delimiter='{TYPED.get(probable, probable)}'"
            hint = (
                f"; between them stands {name_delimiter(probable)}: {option}"
                if probable != delimiter
                else ""
            )
            raise InputError(
                f"{place}: {len(first)} columns, so there is no column {column}; columns count from 1{hint}"
            )
    return [int(column) - 1 for column in columns]


def _find_named(
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
    return _parse_quoted(path, lines, delimiter)


def _parse_quoted(
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


def name_delimiter(delimiter: str) -> str:
    """A delimiter in words."""
    return DELIMITERS.get(delimiter, repr(delimiter))
