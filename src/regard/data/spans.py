"""Files as spans of rows that are read independently of each other: lines, JSON lines, delimited and Parquet tables. A
JSON list is parsed as a whole for each span."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.config.recognition import suffix
from regard.data.bad_records import MissingColumns, RowCollector
from regard.data.delimited import Layout, Record, begun, preference
from regard.data.limits import Limits
from regard.data.lines import DEFAULT_LIMITS, Line, Position, placed_lines
from regard.data.opening import DAMAGED, opened, unreadable
from regard.data.parquet import ENDING as PARQUET
from regard.data.parquet import parquet_rows, read_parquet_records
from regard.data.records import ABSENT, list_of_objects, parse_json, value_at
from regard.data.tables import KEYED
from regard.errors import InputError

BLOCK = 1 << 20
LINES, LIST = "jsonl", "json"
DELIMITED = ("csv", "tsv")


@dataclass(frozen=True)
class Span:
    """Consecutive rows of a file, from the position of the first one."""

    path: str
    lines: int
    offset: int
    rows: int


class RawRow(NamedTuple):
    """A row as it stands in a file: a line of text, or the values of the columns by their keys; and its number."""

    number: int
    content: str | Mapping[str, Any]


@dataclass(frozen=True)
class RowReader:
    """The reading of rows from files of any kind, by the ending of their names. `columns` are those of a table by the
    keys of their values. A line of another file is a text. `delimiter` and `quoting` are as in `Tabular`."""

    columns: Mapping[str, str | int]
    delimiter: str | None = None
    quoting: bool | None = None

    def spans(self, path: str, most: int) -> Iterator[Span]:
        """The spans of a file, of `most` rows each but for the last. Raises InputError for a file that cannot be read,
        and for columns that it lacks."""
        kind = suffix(path)
        if kind == PARQUET:
            count = parquet_rows(path, self._names)
            return (
                Span(path, first, 0, min(most, count - first))
                for first in range(0, count, most)
            )
        if kind in DELIMITED:
            return _cut(path, self._positions(path), most)
        if kind == LIST:
            return _cut(
                path,
                (Position(number, 0) for number, _ in enumerate(list_of_objects(path))),
                most,
            )
        if kind in KEYED and kind != LINES:
            raise InputError(
                f"{path}: is not read in parts; expected .json, .jsonl, .csv, .tsv or .parquet"
            )
        return _line_spans(path, most, DEFAULT_LIMITS)

    def rows(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        """The rows of a span; the collector counts bad ones. Raises InputError for a bad row, if it skips none."""
        kind = suffix(span.path)
        if kind == PARQUET:
            return self._parquet(span)
        if kind in DELIMITED:
            return self._delimited(span, collector)
        if kind == LIST:
            records = list_of_objects(span.path)[span.lines : span.lines + span.rows]
            return self._keyed(
                ((n, record, None) for n, record in enumerate(records, span.lines + 1)),
                collector,
            )
        lines = placed_lines(span.path, start=Position(span.lines, span.offset))
        rows = (
            RawRow(line.number, line.text)
            for _, line in zip(range(span.rows), lines, strict=False)
        )
        if kind == LINES:
            return self._keyed(
                ((number, *parse_json(str(line))) for number, line in rows), collector
            )
        return rows

    def _keyed(
        self, parsed: Iterator[tuple[int, Any, str | None]], collector: RowCollector
    ) -> Iterator[RawRow]:
        """The objects with these numbers, or their faults."""
        for number, record, fault in parsed:
            if not isinstance(record, Mapping):
                collector.refuse(
                    number, fault or f"is {type(record).__name__}; expected an object"
                )
                continue
            found = {
                key: value_at(record, str(column))
                for key, column in self.columns.items()
            }
            lacking = [str(self.columns[key]) for key in found if found[key] is ABSENT]
            if lacking:
                collector.lack(number, MissingColumns(lacking, list(record), "object"))
                continue
            collector.kept += 1
            yield RawRow(number, found)

    def _delimited(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        with closing(placed_lines(span.path)) as lines:
            layout, _ = self._begun(span.path, lines)
        with closing(
            placed_lines(span.path, start=Position(span.lines, span.offset))
        ) as lines:
            for _, record in zip(
                range(span.rows), layout.records(span.path, lines), strict=False
            ):
                row = layout.row(record, collector)
                if row is not None:
                    yield RawRow(
                        record.number, dict(zip(self.columns, row.fields, strict=True))
                    )

    def _positions(self, path: str) -> Iterator[Position]:
        with closing(placed_lines(path)) as lines:
            for record in self._begun(path, lines)[1]:
                yield Position(record.number - 1, record.offset)

    def _parquet(self, span: Span) -> Iterator[RawRow]:
        found = read_parquet_records(span.path, self._names, span.lines, span.rows)
        for number, record in enumerate(found, span.lines + 1):
            values = {
                key: value_at(record, str(column))
                for key, column in self.columns.items()
            }
            yield RawRow(
                number,
                {
                    key: None if value is ABSENT else value
                    for key, value in values.items()
                },
            )

    @property
    def _names(self) -> list[str]:
        return list(map(str, self.columns.values()))

    def _begun(
        self, path: str, lines: Iterable[Line]
    ) -> tuple[Layout, Iterator[Record]]:
        columns: Any = tuple(self.columns.values())
        how = preference(
            suffix(path), delimiter=self.delimiter, quoting=self.quoting, lists=columns
        )
        return begun(path, lines, columns, RowCollector(path, False), how)


def _cut(path: str, positions: Iterator[Position], most: int) -> Iterator[Span]:
    """The spans of a file with a row at each position."""
    first, count = Position(), 0
    for position in positions:
        if count == most:
            yield Span(path, *first, count)
            count = 0
        if not count:
            first = position
        count += 1
    if count:
        yield Span(path, *first, count)


def _line_spans(path: str, most: int, limits: Limits) -> Iterator[Span]:
    """The spans of lines; the ends of lines are counted in blocks of bytes."""
    bounds = limits.of(path)
    first, begin, count, size, block = 0, 0, 0, 0, b""
    with opened(path) as stream:
        while found := _block(stream, path, size):
            block, place = found, 0
            while count + (ends := block.count(b"\n", place)) >= most:
                for _ in range(most - count):
                    place = block.index(b"\n", place) + 1
                yield Span(path, first, begin, most)
                first, begin, count = first + most, size + place, 0
            count += ends
            size += len(block)
            bounds.check(path, size, first + count)
    if size > begin:
        yield Span(path, first, begin, count + (not block.endswith(b"\n")))
    elif not size:
        raise InputError(f"{path}: the file is empty; expected lines of UTF-8 text")


def _block(stream: Any, path: str, offset: int) -> bytes:
    try:
        return stream.read(BLOCK)
    except DAMAGED as error:
        raise unreadable(path, offset, error) from error
