"""Episodes from tables of images with their classes."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from regard.config.recognition import Kind
from regard.data.image_tables import ImageTables
from regard.data.images import LabelledImage
from regard.data.tables import Tabular
from regard.tasks.few_shot.data import SeparateSets


@dataclass(frozen=True, kw_only=True)
class TableEpisodes(SeparateSets, Tabular):
    """Each set is a table with the columns `image`, a file in the folder `images`, or beside the table or in a folder
    there, and `label`, its class; or a table of pixels, as that of a classifier of images. No class is in two of them.

    images: The folder of the images.
    image: The column of the image's file, or its number from 1.
    label: The column of its class, or its number from 1.
    """

    kind: Literal["class-tables"] = "class-tables"
    images: str = "."
    image: str | int = "image"
    label: str | int = "label"

    recognised: ClassVar[tuple[Kind, ...]] = ("table",)

    def read(self, path: str) -> list[LabelledImage]:
        tables = ImageTables(
            images=self.images,
            image=self.image,
            label=self.label,
            delimiter=self.delimiter,
            quoting=self.quoting,
            skip_bad=self.skip_bad,
        )
        return tables.read(path)

    def skipping(self, skip_bad: bool) -> "TableEpisodes":
        return replace(self, skip_bad=skip_bad or self.skip_bad)
