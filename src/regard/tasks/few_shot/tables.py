"""Episodes from tables of images with their classes."""

from dataclasses import dataclass
from typing import Literal

from regard.data.image_tables import ImageRows
from regard.tasks.few_shot.data import SeparateSets


@dataclass(frozen=True, kw_only=True)
class TableEpisodes(ImageRows, SeparateSets):
    """Each set is a table of images and their classes, as that of a classifier of images. No class is in two of
    them."""

    kind: Literal["class-tables"] = "class-tables"

    def skipping(self, skip_bad: bool) -> "TableEpisodes":
        return self.with_columns(None, skip_bad=skip_bad)
