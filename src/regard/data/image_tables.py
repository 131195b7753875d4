"""Images that a table lists with their classes, as Kaggle's files do."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from regard.config.recognition import Kind
from regard.data.bad_records import Row
from regard.data.beside import FilesBeside
from regard.data.images import ImageSets, LabelledImage
from regard.data.pixel_tables import columns_with, image_of, pixel_columns
from regard.data.tables import Tabular, names_in
from regard.data.usable import usable
from regard.errors import InputError
from regard.images import SUFFIXES, read_image


@dataclass(frozen=True, kw_only=True)
class ImageRows(Tabular):
    """The reading of tables with the columns `image`, a file in the folder `images`, or beside the table or in a folder
    there, and `label`, its class, a part of `data:` sections. A folder instead has one such table. A table without a
    column `image` may have the grey levels of square images, 0 to 255, in columns called `pixel0`, `pixel1`, ..., or
    `1x1`, `1x2`, ...

    images: The folder of the images, seen from here or from the table's folder.
    image: The column of the image's file, or its number from 1.
    label: The column of its class, or its number from 1.
    """

    images: str = "."
    image: str | int = "image"
    label: str | int = "label"

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder of a table")

    @property
    def image_columns(self) -> dict[str, str | int]:
        """The columns of image and class."""
        return {"image": self.image, "label": self.label}

    @property
    def files(self) -> FilesBeside:
        """Where the images are."""
        return FilesBeside(
            "image", "table of images", SUFFIXES, "data.images", self.images
        )

    def read(self, path: str) -> list[LabelledImage]:
        """Read the images of a table. Raises InputError for an invalid record, and for an image that is not there."""
        table = (
            self.files.table_in(Path(path)) if Path(path).is_dir() else None
        ) or path
        names = names_in(table)
        if self.image in names or not pixel_columns(names):
            rows = self.rows(table, self.image_columns, numbers=(self.label,))
            return usable(rows, self._of, path, skip_bad=self.skip_bad)
        columns = columns_with(self.label, names, str(table))
        rows = self.streamed(table, columns, numbers=tuple(columns.values()))
        return usable(rows, _of_pixels, path, skip_bad=self.skip_bad)

    def _of(self, row: Row) -> LabelledImage:
        file = self.files.found(row.fields[0], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return LabelledImage(file, row.fields[1], row.place)


@dataclass(frozen=True, kw_only=True)
class ImageTables(ImageRows, ImageSets):
    """A table a set with images and their classes (`ImageRows`)."""

    kind: Literal["image-tables"] = "image-tables"

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and class."""
        return self.image_columns

    def skipping(self, skip_bad: bool) -> "ImageTables":
        return self.with_columns(None, skip_bad=skip_bad)


def _of_pixels(row: Row) -> LabelledImage:
    label, *cells = row.fields
    try:
        return LabelledImage(image_of(cells), label, row.place)
    except InputError as error:
        raise InputError(f"{row.place}: {error}") from error
