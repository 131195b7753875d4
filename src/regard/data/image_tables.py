"""Images that a table lists with their classes, as Kaggle's files do."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from regard.config.recognition import Kind
from regard.data.bad_records import Row
from regard.data.beside import FilesBeside
from regard.data.images import ImageSets, LabelledImage
from regard.data.tables import Tabular
from regard.data.usable import usable
from regard.images import SUFFIXES, read_image


@dataclass(frozen=True, kw_only=True)
class ImageTables(ImageSets, Tabular):
    """A table a set with the columns `image`, a file in the folder `images`, or beside the table or in a folder there,
    and `label`, its class. A folder instead has one such table.

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
        table = self.files.table_in(Path(path)) if Path(path).is_dir() else None
        rows = self.rows(table or path, self.columns, numbers=(self.label,))
        return usable(rows, self._of, path, skip_bad=self.skip_bad)

    def _of(self, row: Row) -> LabelledImage:
        file = self.files.found(row.fields[0], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return LabelledImage(file, row.fields[1], row.place)
