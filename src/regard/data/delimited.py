"""Tables of columns between delimiters: CSV and TSV."""

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from typing import Any

from regard.data.files import (
    BEGINNING,
    DEFAULT_LIMITS,
    FilePath,
    Line,
    Position,
    iterate_lines,
)
from regard.data.records import Keys, Record
from regard.data.rows import MissingColumns
from regard.errors import InputError

log = logging.getLogger("regard")

USUAL = {"csv": ",", "tsv": "\t"}
"""The delimiter of each kind of table."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
QUOTING = "if quotation marks enclose cells, set data.quoting=true"
QUOTED = re.compile(r'"([^"]|"")*"')
"""A cell between quotation marks, in which those are doubled."""
SPREADSHEET = re.compile(r"sep=(.)")
"""The first line by which Excel states the delimiter of a file."""
HEADER_NAMES = frozenset(
    [
        "text",
        "sentence",
        "sentence1",
        "sentence2",
        "sentence_a",
        "sentence_b",
        "review",
        "document",
        "content",
        "title",
        "summary",
        "label",
        "labels",
        "class",
        "category",
        "source",
        "target",
        "src",
        "tgt",
        "question",
        "answer",
        "context",
        "premise",
        "hypothesis",
        "score",
        "rating",
        "sentiment",
        "caption",
        "captions",
        "image",
        "file",
        "filename",
        "path",
        "id",
        "split",
        "fold",
        "de",
        "en",
        "fr",
        "es",
        "cs",
    ]
)
"""Names of columns that are hardly ever a text or a class themselves."""


def detect_delimiter(line: str, columns: Keys, usual: str, quoting: bool) -> str:
    """Return the delimiter of a table by its first line.

    It is the usual one, another one if only that divides the line into the columns, or
    the most frequent one.
    """
    cells = {}
    for delimiter in (usual, *DELIMITERS):
        cells[delimiter] = line.split(delimiter)
        if quoting:
            records = _split_quoted([line], delimiter, strict=False)
            cells[delimiter] = next(records, [""])
    for delimiter, names in cells.items() if columns else ():
        names = _strip_names(names, columns)
        if set(columns) <= {*names, *range(1, len(names) + 1)}:
            return delimiter
    return max(cells, key=lambda delimiter: len(cells[delimiter]))


def read_delimited(
    path: FilePath,
    kind: str,
    columns: Keys,
    start: Position = BEGINNING,
    delimiter: str | None = None,
    quoting: bool | None = None,
) -> Iterator[Record]:
    """Yield the records of a table.

    Args:
        path: The file.
        kind: `csv` or `tsv`.
        columns: The columns to read, by name or by number from 1.
        start: The position of the first record.
        delimiter: The delimiter; None to detect it by the first line.
        quoting: Whether cells may be in quotation marks; None for those of `csv` only.

    Raises:
        InputError: The file cannot be read, has not the columns, or a quote is not
            closed.
    """
    quoting = kind == "csv" if quoting is None else quoting
    with closing(iterate_lines(path)) as lines:
        first = next(lines)
        second = next(lines, None)
    before = 0  # records before the first row: Excel's `sep=;` and a header
    stated = SPREADSHEET.fullmatch(first.text)
    if stated and second:
        delimiter = delimiter or stated[1]
        first = second
        before = 1
    if delimiter is None:
        delimiter = detect_delimiter(first.text, columns, USUAL[kind], quoting)
        if delimiter != USUAL[kind]:
            _log_delimiter(path, DELIMITERS[delimiter])
    with closing(iterate_lines(path)) as lines:
        records = _split_lines(path, lines, delimiter, quoting)
        line, cells = next(islice(records, before, None))
    names = _find_names(cells, columns, f"{path}:{line.number}")
    is_numbered = isinstance(names[0], int)
    before = 0 if start.lines else before + (not is_numbered)
    # Rows of numbered columns between tabs may be longer, as in STS-Benchmark. In CSV a
    # further field usually means a missing quote.
    may_be_longer = delimiter == "\t" and is_numbered
    width = len(names)
    with closing(iterate_lines(path, start=start)) as lines:
        records = _split_lines(path, lines, delimiter, quoting)
        for first, cells in islice(records, before, None):
            fault = ""
            if len(cells) < width or (len(cells) > width and not may_be_longer):
                excess = f"{len(cells)} columns" if any(cells) else "a blank line"
                fault = f"{excess}, expected {width} columns as in the first line"
            if not quoting and any(cell.startswith('"') for cell in cells):
                fault = fault and f"{fault}; {QUOTING}"
                if any(QUOTED.fullmatch(cell) for cell in cells):
                    _log_quotes(path)
            values = dict(zip(names, cells, strict=False))
            yield Record(first.number, values, fault, offset=first.offset)


def _split_lines(
    path: FilePath, lines: Iterator[Line], delimiter: str, quoting: bool
) -> Iterator[tuple[Line, list[str]]]:
    """Yield the first line and the cells of each record."""
    if not quoting:
        for line in lines:
            yield line, line.text.split(delimiter)
        return
    consumed: list[Line] = []

    def texts() -> Iterator[str]:
        for line in lines:
            consumed.append(line)
            yield line.text + "\n"

    try:
        for cells in _split_quoted(texts(), delimiter):
            yield consumed[0], cells
            consumed.clear()
    except csv.Error as error:
        raise InputError(
            f"{path}:{consumed[0].number}: a quote opened here is not closed properly "
            f"({error}); double a quotation mark inside a field, or set "
            "data.quoting=false if it is an ordinary character"
        ) from error


def _split_quoted(
    texts: Iterable[str], delimiter: str, *, strict: bool = True
) -> Iterator[list[str]]:
    """Yield the cells of each record; one may be as long as a line of a file."""
    csv.field_size_limit(DEFAULT_LIMITS.max_line)
    # csv ends a line at \r, and no line contains NUL.
    lines = (text.replace("\r", "\0") for text in texts)
    for cells in csv.reader(lines, delimiter=delimiter, strict=strict):
        yield [cell.replace("\0", "\r") for cell in cells]


@cache
def _log_quotes(path: FilePath) -> None:
    log.warning("%s: quotation marks are read as text; %s", path, QUOTING)


@cache
def _log_delimiter(path: FilePath, delimiter: str) -> None:
    log.info("%s: columns are separated by %s (data.delimiter)", path, delimiter)


def _find_names(cells: list[str], columns: Keys, location: str) -> Keys:
    """Return the names of columns in the first record, or their numbers.

    Raises:
        InputError: The first record has not the columns.
    """
    if any(isinstance(column, int) for column in columns):
        numbers: list[Any] = list(range(1, len(cells) + 1))
        if missing := [column for column in columns if column not in numbers]:
            raise InputError(
                f"{location}: {len(cells)} columns, so there is no column {missing[0]}; "
                "columns count from 1. Set data.delimiter if they are divided wrongly."
            )
        chosen = [cells[int(column) - 1].strip() for column in columns]
        if HEADER_NAMES.issuperset(map(str.lower, chosen)) and len(set(chosen)) > 1:
            raise InputError(
                f"{location}: the line looks like a header ({', '.join(chosen)}) and not "
                "like a row; name the columns instead of numbering them, or remove the "
                "line"
            )
        return numbers
    names = _strip_names(cells, columns)
    if missing := [str(column) for column in columns if column not in names]:
        raise MissingColumns(location, missing, names, numbered=True)
    for column in columns:
        if (count := names.count(str(column))) > 1:
            raise InputError(
                f"{location}: the header has column {column!r} {count} times; rename one"
            )
    return names


def _strip_names(cells: Sequence[str], columns: Keys) -> list[str]:
    """Remove the blanks around names that are not requested with them."""
    return [
        cell if cell in columns or cell.strip() in cells else cell.strip()
        for cell in cells
    ]
