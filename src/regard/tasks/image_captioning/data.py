"""Images with captions: from tables and folders, or drawn scenes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from regard.data.data_files import TableFiles
from regard.data.generated.pairs import SmallSize, SmallSizeOrNone, Synthetic
from regard.data.media_files import MediaFiles
from regard.data.rows import Row
from regard.data.splits import Splits
from regard.data.tables import Columns
from regard.errors import InputError
from regard.images import SUFFIXES, Image, read_image

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of a part of an image, as shares of its sides."""
SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
"""The names of each set in the column `split`."""


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image with its reference captions."""

    image: Image
    captions: tuple[str, ...]
    place: str
    """Its `file:line`, for messages."""
    boxes: Mapping[str, Box] = field(default_factory=dict)
    """Where the objects are that words of the captions name."""
    set_name: str = ""
    """The name of its set in the training file."""


@dataclass(frozen=True, kw_only=True)
class CaptionTables(TableFiles[Captioned]):
    """Tables of image files and captions, or folders with one such table.

    With `split` all sets are in the file `train`; without `split` and `valid`, images
    of the training set are held out.
    """

    kind: Literal["captions"] = "captions"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    images: str = "."
    """The folder of the images, seen from here or from the table's folder."""
    image: str | int = "image"
    """The column of the image's file."""
    captions: str | int = "captions"
    """The column of the caption, or in JSON of a list of them."""
    split: str | int | None = None
    """The column of an image's set: train, valid (or val, or dev) or test."""

    recognised = ("table", "folder")
    noun = "images"
    expected = (
        "a table of images and captions, or a folder with one, as --set data.train=PATH"
    )

    def __post_init__(self) -> None:
        if self.split is not None and (self.valid or self.test):
            raise InputError(
                "captions: with split all sets are in the file train; remove valid and "
                "test"
            )

    def load(self) -> Splits[Captioned]:
        """Read all sets.

        Raises:
            InputError: A record is bad, or an image is in two sets, unless a file is
                given twice.
        """
        splits = super().load()
        if self.train in (self.valid, self.test):
            return splits
        locations: dict[str, str] = {}
        for images in splits.by_name.values():
            for image in images:
                if place := locations.get(str(image.image)):
                    raise InputError(
                        f"{image.place}: image {image.image} is in another set too, "
                        f"{place}; keep it in one set"
                    )
            locations |= {str(image.image): image.place for image in images}
        return splits

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and captions."""
        return {"image": self.image, "captions": self.captions}

    @property
    def files(self) -> MediaFiles:
        """Where the images are."""
        return MediaFiles(
            "image",
            self.columns,
            SUFFIXES,
            "data.images",
            self.images,
        )

    @property
    def split_column(self) -> Mapping[str, str | int]:
        """The column that says of which set an image is."""
        return {} if self.split is None else {"split": self.split}

    @property
    def split_names(self) -> Mapping[str, Sequence[str]]:
        """The names of each set in that column."""
        return {} if self.split is None else SPLITS

    def group(self, example: Captioned) -> str:
        """Return the image, whose captions stay in one set."""
        return str(example.image)

    def set_of(self, example: Captioned) -> str:
        """Return the name of an image's set."""
        return example.set_name

    def read_table(self, path: Any, split: Columns) -> Iterator[Captioned]:
        """Yield each image of a table once, with the captions of all its rows.

        Raises:
            InputError: As `load`.
        """
        merged: dict[tuple[str, str], Captioned] = {}
        for image in super().read_table(self.files.table_of(path), split):
            key = image.set_name, str(image.image)
            first = merged.setdefault(key, image)
            if first is not image:
                captions = dict.fromkeys((*first.captions, *image.captions))
                merged[key] = replace(first, captions=tuple(captions))
        yield from merged.values()

    def parse(self, row: Row) -> Captioned:
        """Return the image of a row. Raises InputError for one that is not there."""
        name, caption = row.fields
        file = self.files.find(name, row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        captions = (caption, *row.alternatives)
        return Captioned(file, captions, row.place, set_name=row.split)


SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "circle": lambda y, x: y**2 + x**2 <= 1,
    "square": lambda y, x: np.maximum(abs(y), abs(x)) <= 0.9,
    "triangle": lambda y, x: (y <= 0.9) & (abs(x) <= (y + 1) / 2),
    "diamond": lambda y, x: abs(y) + abs(x) <= 1,
    "cross": lambda y, x: (
        (np.minimum(abs(y), abs(x)) <= 0.3) & (np.maximum(abs(y), abs(x)) <= 1)
    ),
    "ring": lambda y, x: (y**2 + x**2 <= 1) & (y**2 + x**2 >= 0.3),
}
"""Pixels of a shape, by their distances from its middle, 1 at the edge."""
COLORS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 89, 200),
    "yellow": (245, 200, 20),
    "purple": (148, 60, 189),
    "white": (250, 250, 250),
}
RELATIONS = {"down": ("above", "below"), "across": ("left of", "right of")}
SMALLEST, LARGEST = 0.16, 0.24
"""Half the side of a shape, as a share of the image's."""


@dataclass(frozen=True, kw_only=True)
class Scenes(Synthetic):
    """Images of two shapes on grounds of different grays, with true captions."""

    kind: Literal["scenes"] = "scenes"
    train: SmallSize = 6_000  # 100,000 of 64 x 64 pixels are 1.2 GB
    valid: SmallSize = 300
    test: SmallSizeOrNone = 500
    size: Annotated[int, Field(ge=16, le=256)] = 64
    """The side of an image in pixels."""

    def load(self) -> Splits[Captioned]:
        """Generate all three sets, each from a generator of its own."""
        return Splits(self._make("train"), self._make("valid"), self.tests())

    def tests(self) -> list[Captioned]:
        """Generate the test set."""
        return self._make("test")

    def _make(self, name: str) -> list[Captioned]:
        random = Random(f"scenes/{self.seed}/{name}")
        return [
            make_scene(random, self.size, f"scenes {name} {number}")
            for number in range(1, getattr(self, name) + 1)
        ]


def make_scene(random: Random, size: int, place: str) -> Captioned:
    """Draw two shapes, with their captions and boxes."""
    shapes = random.sample(list(SHAPES), 2)
    colors = random.sample(list(COLORS), 2)
    direction = random.choice(list(RELATIONS))
    pixels = np.full((size, size, 3), random.randint(30, 130), dtype=np.uint8)
    centers = (np.arange(size) + 0.5) / size
    boxes: dict[str, Box] = {}
    names: dict[str, str] = {}
    for number, shape in enumerate(shapes):
        color = colors[number]
        half = random.uniform(SMALLEST, LARGEST)
        y = random.uniform(half, 0.5 - half) + 0.5 * number
        x = random.uniform(half, 1 - half)
        if direction == "across":
            y, x = x, y
        axes = (centers - y) / half, (centers - x) / half
        inside = SHAPES[shape](*np.meshgrid(*axes, indexing="ij"))
        pixels[inside] = COLORS[color]
        boxes[shape] = (y - half, x - half, y + half, x + half)
        names[shape] = f"a {color} {shape}"
    return Captioned(pixels, tuple(describe_scene(names, boxes)), place, boxes)


def describe_scene(names: Mapping[str, str], boxes: Mapping[str, Box]) -> Iterator[str]:
    """Yield two captions for each direction in which two shapes do not overlap."""
    for axis, (before, behind) in enumerate(RELATIONS.values()):
        first, second = names
        if boxes[first][axis] > boxes[second][axis]:
            first, second = second, first
        if boxes[first][axis + 2] <= boxes[second][axis]:
            yield f"{names[first]} is {before} {names[second]}"
            yield f"{names[second]} is {behind} {names[first]}"
