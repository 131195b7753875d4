"""Files to predict from, as spans of rows that are read independently of each other."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.file_kinds import is_table_name, suffix
from regard.data.arrays import read_idx
from regard.data.arrow_tables import PARQUET, parquet_rows, read_parquet_records
from regard.data.delimited import Layout, Record, delimiter_settings, detect_layout
from regard.data.files import (
    DAMAGED,
    DEFAULT_LIMITS,
    Limits,
    Line,
    Position,
    iterate_lines,
    list_files,
    open_file,
    read_error,
)
from regard.data.images import file_of
from regard.data.media_files import MediaFiles
from regard.data.records import ABSENT, get_value, list_of_objects, parse_json
from regard.data.rows import BadRecord, MissingColumns, RowCollector
from regard.data.tables import KEYED
from regard.errors import InputError
from regard.images import Image

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
        lines = iterate_lines(span.path, start=Position(span.lines, span.offset))
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
                key: get_value(record, str(column))
                for key, column in self.columns.items()
            }
            lacking = [str(self.columns[key]) for key in found if found[key] is ABSENT]
            if lacking:
                collector.lack(number, MissingColumns(lacking, list(record), "object"))
                continue
            collector.kept += 1
            yield RawRow(number, found)

    def _delimited(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        with closing(iterate_lines(span.path)) as lines:
            layout, _ = self._begun(span.path, lines)
        with closing(
            iterate_lines(span.path, start=Position(span.lines, span.offset))
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
        with closing(iterate_lines(path)) as lines:
            for record in self._begun(path, lines)[1]:
                yield Position(record.number - 1, record.offset)

    def _parquet(self, span: Span) -> Iterator[RawRow]:
        found = read_parquet_records(span.path, self._names, span.lines, span.rows)
        for number, record in enumerate(found, span.lines + 1):
            values = {
                key: get_value(record, str(column))
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
        how = delimiter_settings(
            suffix(path), delimiter=self.delimiter, quoting=self.quoting, lists=columns
        )
        return detect_layout(path, lines, columns, RowCollector(path, False), how)


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
    with open_file(path) as stream:
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
        raise read_error(path, offset, error) from error


KEY = "image"
LOCATION = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class ImageReader:
    """A reader of images: paths or bytes in tables, arrays in IDX files."""

    rows_of: RowReader

    @property
    def columns(self) -> Mapping[str, str | int]:
        """The column of the image in tables."""
        return self.rows_of.columns

    def spans(self, path: str, size: int) -> Iterator[Span]:
        """Yield the spans of a file, as `RowReader.spans` does."""
        if not is_idx(path):
            yield from self.rows_of.spans(path, size)
            return
        count = len(read_idx(Path(path), 3))
        for first in range(0, count, size):
            yield Span(path, first, 0, min(size, count - first))

    def rows(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        """Yield the rows of a span, each with an image under the key `image`."""
        if is_idx(span.path):
            images = read_idx(Path(span.path), 3)[span.lines : span.lines + span.rows]
            for number, image in enumerate(images, span.lines + 1):
                yield RawRow(number, {KEY: image})
            return
        for row in self.rows_of.rows(span, collector):
            if isinstance(row.content, str):
                yield row
            else:
                yield RawRow(row.number, {KEY: file_of(row.content[KEY])})


def reader_of(columns: Mapping[str, str | int]) -> RowReader | ImageReader:
    """Return the reader of rows with these columns, by the keys of an example."""
    reader = RowReader(columns)
    return ImageReader(reader) if list(columns) == [KEY] else reader


def image_at(
    text: str,
    column: str | int = KEY,
    files: MediaFiles | None = None,
    place: str = "",
) -> Image:
    """Return the image of a path, or of a location as messages name it.

    Args:
        text: A path, or `images-idx3-ubyte:1` for the first image of an IDX file,
            `images.parquet:1` for the first row and `images.csv:2` for a line of a table.
        column: The column of the image in a table.
        files: Where the images that a table names are, as in training.
        place: The location of the text, if it comes from a table.

    Raises:
        InputError: A file has no image there, or several without a location.
    """
    if first := first_image(text):
        raise InputError(
            f"{text}: has more than one image; name one, as {first}, or read all with "
            f"--input {text}"
        )
    match = LOCATION.fullmatch(text)
    if match is None or Path(text).exists() or not Path(match["file"]).is_file():
        return files.find(text, place) if files and _is_in_table(place) else text
    path, number = match["file"], int(match["number"])
    reader = ImageReader(RowReader({KEY: column}))
    first_number = last_number = 0
    for span in reader.spans(path, 1):
        last_number = span.lines + 1
        first_number = first_number or last_number
        if last_number == number:
            image = _read_single(reader, span)
            if files and isinstance(image, str):
                return files.find(image, text)
            return image
    raise InputError(
        f"{text}: is no image; the file has them from {path}:{first_number} to "
        f"{path}:{last_number}"
    )


def first_image(data: str | None) -> str | None:
    """Return the location of the first image in IDX or Parquet; None for other files."""
    try:
        path = list_files(data or "")[0]
    except InputError:
        return None
    holds_images = is_idx(path) or suffix(path) == PARQUET
    return f"{path}:1" if holds_images and Path(path).is_file() else None


def _is_in_table(location: str) -> bool:
    """Whether a location is that of a row of a table."""
    match = LOCATION.fullmatch(location)
    if match is None:
        return False
    return is_table_name(match["file"]) and Path(match["file"]).is_file()


def is_idx(path: str) -> bool:
    """Whether a path names an IDX file with images."""
    return "idx3" in Path(path).name


def _read_single(reader: ImageReader, span: Span) -> Image:
    """Return the image of a span of one row. Raises InputError for a bad one."""
    try:
        (row,) = reader.rows(span, RowCollector(span.path, False))
    except BadRecord as error:
        raise InputError(error.fault) from error
    assert isinstance(row.content, Mapping)
    return row.content[KEY]
