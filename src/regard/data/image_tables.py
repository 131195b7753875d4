"""Images that a table lists with their classes, as Kaggle's files do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from regard.config.recognition import Kind, named_table
from regard.data.bad_records import Row
from regard.data.beside import FilesBeside
from regard.data.headers import column_names
from regard.data.images import ImageSets, LabelledImage
from regard.data.pixel_tables import columns_with, image_of, pixel_columns
from regard.data.tables import Tabular, table_files
from regard.data.usable import usable
from regard.images import SUFFIXES, read_image


@dataclass(frozen=True, kw_only=True)
class ImageTables(ImageSets, Tabular):
    """A table a set with the columns `image`, a file in the folder `images`, or beside the table or in a folder there,
    and `label`, its class. A folder instead has one such table. A table without a column `image` may have the grey
    levels of square images, 0 to 255, in columns called `pixel0`, `pixel1`, ..., or `1x1`, `1x2`, ...

    images: The folder of the images.
    image: The column of the image's file, or its number from 1.
    label: The column of its class, or its number from 1.
    """

    kind: Literal["image-tables"] = "image-tables"
    images: str = "."
    image: str | int = "image"
    label: str | int = "label"

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and class."""
        return {"image": self.image, "label": self.label}

    @property
    def files(self) -> FilesBeside:
        """Where the images are."""
        return FilesBeside("image", "table of images", SUFFIXES, "data.images", self.images)

    def skipping(self, skip_bad: bool) -> "ImageTables":
        return replace(self, skip_bad=skip_bad or self.skip_bad)

    def read(self, path: str) -> list[LabelledImage]:
        """Read the images of another table. Raises InputError as `load` does, and for an image that is not there."""
        table = (self.files.table_in(Path(path)) if Path(path).is_dir() else None) or path
        names = column_names(table_files(table)[0]) if named_table(str(table)) else []
        if self.image in names or not pixel_columns(names):
            return usable(self.rows(table, self.columns, numbers=(self.label,)), self._of, path, skip_bad=self.skip_bad)
        columns = columns_with(self.label, names, str(table))
        rows = self.streamed(table, columns, numbers=tuple(columns.values()))
        return usable(rows, _of_pixels, path, skip_bad=self.skip_bad)

    def _of(self, row: Row) -> LabelledImage:
        file = self.files.found(row.fields[0], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return LabelledImage(file, row.fields[1], row.place)


def _of_pixels(row: Row) -> LabelledImage:
    return LabelledImage(image_of(row), row.fields[0], row.place)
