"""Files to predict from, as spans of rows that are read independently of each other."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.file_kinds import TABLES, is_table_name, suffix
from regard.data.arrays import read_idx
from regard.data.arrow_tables import PARQUET, parquet_rows
from regard.data.files import Position, iterate_lines, list_files
from regard.data.images import file_of
from regard.data.media_files import MediaFiles
from regard.data.records import Record, find_values
from regard.data.rows import BadRecord, RowCollector
from regard.data.tables import Columns, stream_records
from regard.errors import InputError
from regard.images import Image

IMAGE = "image"
"""The key of an image in the columns of a reader and in its rows."""
WORD_FILES = frozenset({"conll", "conllu", "iob", "iob2", "bio"})
"""The endings of files with a word and its columns a line."""
LOCATION = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class Span:
    """Consecutive rows of a file, from the position of the first one."""

    path: str
    lines: int
    offset: int
    rows: int


class RawRow(NamedTuple):
    """A row of a file: its number, and its line or its values by key."""

    number: int
    content: str | Mapping[str, Any]


@dataclass(frozen=True)
class RowReader:
    """A reader of rows from files of any kind, by the ending of their names.

    Attributes:
        columns: The columns of a table by the keys of their values. A row of any other
            file is a line, or an image of an IDX file.
    """

    columns: Columns

    def spans(self, path: str, size: int) -> Iterator[Span]:
        """Yield the spans of a file, of `size` rows but for the last.

        Raises:
            InputError: The file cannot be read, or lacks columns.
        """
        if suffix(path) == PARQUET:
            names = list(map(str, self.columns.values()))
            positions = ((row, 0) for row in range(parquet_rows(path, names)))
        else:
            records = self._records(path, Position())
            positions = ((record.number - 1, record.offset) for record in records)
        while batch := list(islice(positions, size)):
            yield Span(path, *batch[0], len(batch))

    def rows(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        """Yield the rows of a span; the collector counts bad ones.

        Raises:
            InputError: A row is bad, and the collector skips none.
        """
        keys = list(self.columns)
        columns = list(self.columns.values())
        position = Position(span.lines, span.offset)
        for record in islice(self._records(span.path, position), span.rows):
            if isinstance(record.values, str) and suffix(span.path) not in TABLES:
                yield RawRow(record.number, record.values)
                continue
            values = find_values(record, columns, collector)
            if values is not None:
                collector.kept += 1
                row = dict(zip(keys, values, strict=True))
                if IMAGE in row:
                    row[IMAGE] = file_of(row[IMAGE])
                yield RawRow(record.number, row)

    def _records(self, path: str, start: Position) -> Iterator[Record]:
        """Yield the records of a file from a position on."""
        if suffix(path) in TABLES:
            yield from stream_records(path, tuple(self.columns.values()), start)
        elif suffix(path) in WORD_FILES:
            yield from read_sentences(path, start)
        elif is_idx(path):
            images = read_idx(Path(path), 3)[start.lines :]
            for number, image in enumerate(images, start.lines + 1):
                yield Record(number, dict.fromkeys(self.columns.values(), image))
        else:
            for number, offset, text in iterate_lines(path, start=start):
                yield Record(number, text, offset=offset)


def read_sentences(path: str, start: Position) -> Iterator[Record]:
    """Yield the sentences of a file with a word and its columns a line."""
    is_conllu = suffix(path) == "conllu"
    words: list[str] = []
    first = None
    for line in iterate_lines(path, start=start):
        cells = line.text.split()
        if cells and not line.text.startswith("#") and cells[0] != "-DOCSTART-":
            first = first or line
            # ranges of words and empty nodes of CoNLL-U are no words
            if not is_conllu or (cells[0].isdecimal() and len(cells) > 1):
                words.append(cells[is_conllu])
        elif words and first and not cells:
            yield Record(first.number, " ".join(words), offset=first.offset)
            words, first = [], None
    if words and first:
        yield Record(first.number, " ".join(words), offset=first.offset)


def image_at(
    text: str,
    column: str | int = IMAGE,
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
        origin = LOCATION.fullmatch(place)
        is_in_table = origin is not None and is_table_name(origin["file"])
        return files.find(text, place) if files and is_in_table else text
    path = match["file"]
    number = int(match["number"])
    reader = RowReader({IMAGE: column})
    for span in reader.spans(path, 1):
        if span.lines + 1 == number:
            try:
                (row,) = reader.rows(span, RowCollector(path, False))
            except BadRecord as error:
                raise InputError(error.fault) from error
            assert isinstance(row.content, Mapping)
            image = row.content[IMAGE]
            is_name = files is not None and isinstance(image, str)
            return files.find(image, text) if files and is_name else image
    raise InputError(f"{text}: the file has no image with this number")


def first_image(data: str | None) -> str | None:
    """Return the location of the first image in IDX or Parquet; None for other files."""
    try:
        path = list_files(data or "")[0]
    except InputError:
        return None
    holds_images = is_idx(path) or suffix(path) == PARQUET
    return f"{path}:1" if holds_images and Path(path).is_file() else None


def is_idx(path: str) -> bool:
    """Return whether a path names an IDX file with images."""
    return "idx3" in Path(path).name
