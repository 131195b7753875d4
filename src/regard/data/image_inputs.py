"""Images to predict from that stand in a file with others: rows of tables, of pixels too, and those of IDX files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.config.recognition import named_table, suffix
from regard.data.bad_records import BadRecord, RowCollector
from regard.data.beside import FilesBeside
from regard.data.idx import read_idx
from regard.data.images import file_of
from regard.data.opening import files_of
from regard.data.parquet import ENDING as PARQUET
from regard.data.pixel_tables import image_of, pixels_in
from regard.data.spans import DELIMITED, LINES, RawRow, RowReader, Span
from regard.data.tables import names_in
from regard.errors import InputError
from regard.images import Image

KEY = "image"
PLACE = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class ImageReader:
    """As `RowReader` for the one key `image`, whose value is an array for a row of pixels and an image of IDX. Such a
    table needs no other column."""

    other: RowReader

    @property
    def columns(self) -> Mapping[str, str | int]:
        """The column of the image in other tables."""
        return self.other.columns

    def spans(self, path: str, most: int) -> Iterator[Span]:
        """As `RowReader.spans`. Raises InputError for pixels that are no square, too."""
        if not is_idx(path):
            return (self._of_pixels(path) or self.other).spans(path, most)
        count = len(read_idx(Path(path), 3))
        return (
            Span(path, first, 0, min(most, count - first))
            for first in range(0, count, most)
        )

    def rows(self, span: Span, collector: RowCollector) -> Iterator[RawRow]:
        """As `RowReader.rows`."""
        if is_idx(span.path):
            images = read_idx(Path(span.path), 3)[span.lines : span.lines + span.rows]
            yield from (
                RawRow(number, {KEY: image})
                for number, image in enumerate(images, span.lines + 1)
            )
            return
        pixels = self._of_pixels(span.path)
        if pixels is None:
            for row in self.other.rows(span, collector):
                yield (
                    row
                    if isinstance(row.content, str)
                    else RawRow(row.number, {KEY: file_of(row.content[KEY])})
                )
            return
        for row in pixels.rows(span, collector):
            try:
                assert isinstance(row.content, Mapping)
                yield RawRow(
                    row.number, {KEY: image_of([*map(str, row.content.values())])}
                )
            except InputError as error:
                collector.refuse(row.number, str(error))

    def _of_pixels(self, path: str) -> RowReader | None:
        """The reader of a table's columns of pixels; None for a file without any, or with a column of the image. Raises
        InputError for pixels that are no square."""
        names = names_in(path) if suffix(path) in (*DELIMITED, LINES) else []
        pixels = () if self.columns[KEY] in names else pixels_in(names, path)
        return RowReader({name: name for name in pixels}) if pixels else None


def reader_of(columns: Mapping[str, str | int]) -> RowReader | ImageReader:
    """The reader of the rows that examples with these keys are made of."""
    return (
        ImageReader(RowReader(columns)) if [*columns] == [KEY] else RowReader(columns)
    )


def image_at(
    text: str,
    column: str | int = KEY,
    files: FilesBeside | None = None,
    place: str = "",
) -> Image:
    """The image of a path, or of a place in a file as messages name it: `digits.csv:2` is line 2 of a table,
    `images-idx3-ubyte:1` the first image of IDX and `images.parquet:1` the first row. Where a table names an image, it
    is that of `files`, as in training; the `place` is that of a text from a table.

    Raises:
        InputError: a file has no image at this place, or several without a place, or cannot be read.
    """
    if first := first_image(text):
        raise InputError(
            f"{text}: has more than one image; name one, as {first}, or read all with --input {text}"
        )
    found = PLACE.fullmatch(text)
    if found is None or Path(text).exists() or not Path(found["file"]).is_file():
        return files.found(text, place) if files and _in_table(place) else text
    path, number = found["file"], int(found["number"])
    reader = ImageReader(RowReader({KEY: column}))
    begin = last = 0
    for span in reader.spans(path, 1):
        last = span.lines + 1
        begin = begin or last
        if last == number:
            image = _only(reader, span)
            return (
                files.found(image, text) if files and isinstance(image, str) else image
            )
    raise InputError(
        f"{text}: is no image; the file has them from {path}:{begin} to {path}:{last}"
    )


def first_image(data: str | None) -> str | None:
    """The place of the first image of data in tables of pixels, IDX or Parquet; None for others, and for those that
    cannot be read any more."""
    try:
        path = files_of(data or "")[0]
        if not Path(path).is_file():
            return None
        if is_idx(path) or suffix(path) == PARQUET:
            return f"{path}:1"
        reader = ImageReader(RowReader({KEY: KEY}))._of_pixels(path)
        return reader and f"{path}:{next(reader.spans(path, 1)).lines + 1}"
    except InputError:
        return None


def _in_table(place: str) -> bool:
    """Whether a place is that of a row of a table."""
    found = PLACE.fullmatch(place)
    return (
        found is not None
        and named_table(found["file"])
        and Path(found["file"]).is_file()
    )


def is_idx(path: str) -> bool:
    """Whether a file of IDX with images is named."""
    return "idx3" in Path(path).name


def _only(reader: ImageReader, span: Span) -> Image:
    """The image of a span of one row. Raises InputError for a bad one."""
    try:
        (row,) = reader.rows(span, RowCollector(span.path, False))
    except BadRecord as error:
        raise InputError(error.fault) from error
    assert isinstance(row.content, Mapping)
    return row.content[KEY]
