"""Images with captions: from tables, folders and shards, or drawn scenes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.config.file_kinds import Kind, suffix
from regard.data.batches import Batch, collate
from regard.data.data_files import DataFiles, TableFiles
from regard.data.generated.synthetic import Synthetic
from regard.data.image_shards import (
    RECORD,
    Part,
    parquet_parts,
    read_label,
    shard_files,
    tar_samples,
)
from regard.data.media_files import MediaFiles
from regard.data.rows import Row, iterate_converted
from regard.data.splits import Splits
from regard.errors import InputError
from regard.images import SUFFIXES, Image, Pixels, read_image
from regard.shapes import Float, Int
from regard.text.special import SPECIAL, SpecialTokens

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of a part of an image, as shares of its sides."""
SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
"""The names of each set in the column `split`."""
CAPTION_FILE = ".txt"
"""The ending of the file with an image's captions, one a line."""


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image with its reference captions."""

    source: Image | Part
    """The image, or its bytes in a shard, which are read whenever they are needed."""
    captions: tuple[str, ...]
    place: str
    """Its `file:line`, for messages."""
    boxes: Mapping[str, Box] = field(default_factory=dict)
    """Where the objects are that words of the captions name."""

    @property
    def image(self) -> Image:
        """The image."""
        return self.source.read() if isinstance(self.source, Part) else self.source


@dataclass(frozen=True, kw_only=True)
class CaptionTables(TableFiles[Captioned]):
    """Tables of image files and captions, or folders.

    A folder has one such table, or a .txt file for each image with a caption a line.
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

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder")
    noun = "images"
    expected = (
        "a table of images and captions, or a folder of them, as --set data.train=PATH"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.split is not None and (self.valid or self.test):
            raise InputError(
                "captions: with split all sets are in the file train; remove valid and "
                "test"
            )

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and captions."""
        return {"image": self.image, "captions": self.captions}

    @property
    def files(self) -> MediaFiles:
        """Where the images are."""
        return MediaFiles(
            "image", "table of captions", SUFFIXES, "data.images", self.images
        )

    @property
    def split_column(self) -> Mapping[str, str | int]:
        """The column that says of which set an image is."""
        return {} if self.split is None else {"split": self.split}

    @property
    def split_names(self) -> Mapping[str, Sequence[str]]:
        """The names of each set in that column."""
        return {} if self.split is None else SPLITS

    def check_split_values(
        self, values: Sequence[str], examples: Sequence[Captioned]
    ) -> None:
        """Raise InputError for the name of no set, and for sets without images."""
        names = [name for aliases in SPLITS.values() for name in aliases]
        for value, example in zip(values, examples, strict=True):
            if value not in names:
                raise InputError(
                    f"{example.place}: {self.split} is {value!r}; expected one of "
                    f"{', '.join(names)}"
                )
        for key in ("train", "valid"):
            if not set(SPLITS[key]) & set(values):
                raise InputError(
                    f"{self.train}: no record whose {self.split} is "
                    f"{' or '.join(SPLITS[key])}"
                )

    def check_splits(self, splits: Splits[Captioned]) -> None:
        """Raise InputError for an image in two sets, unless a file is given twice."""
        if self.train not in (self.valid, self.test):
            check_disjoint_images(splits)

    def group(self, example: Captioned) -> str:
        """Return the image, whose captions stay in one set."""
        return str(example.image)

    def examples(self, path: str) -> Iterator[Captioned]:
        """Yield the images of a table or folder. Raises InputError as `load` does."""
        return (image for _, image in self._images(path, {}))

    def entries(self, path: str) -> Iterator[tuple[str, Captioned]]:
        """Yield the images of a table or folder, each after the name of its set."""
        return self._images(path, self.split_column)

    def parse(self, row: Row) -> Captioned:
        """Return the image of a row. Raises InputError for one that is not there."""
        file = self.files.find(row.fields[-2], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return Captioned(file, (row.fields[-1], *row.others), row.place)

    def _images(
        self, path: str, split: Mapping[str, str | int]
    ) -> Iterator[tuple[str, Captioned]]:
        folder = Path(path)
        table = self.files.table_in(folder) if folder.is_dir() else path
        if table is None:
            files = self.files.within(folder)
            for image, lines in self.files.texts(folder, files):
                location = str(image.with_suffix(CAPTION_FILE))
                yield "", Captioned(image, tuple(lines), location)
            return
        names: dict[str, str] = {}

        def parse(row: Row) -> Captioned:
            names[row.place] = row.fields[0] if split else ""
            return self.parse(row)

        rows = self.streamed(table, {**split, **self.columns})
        images_of: dict[str, list[Captioned]] = {}
        for image in iterate_converted(rows, parse, path, skip_bad=self.skip_bad):
            images_of.setdefault(names[image.place], []).append(image)
        for name, images in images_of.items():
            for image in merge_captions(images):
                yield name, image


def merge_captions(images: Sequence[Captioned]) -> list[Captioned]:
    """Give the first of several rows of an image the captions of all."""
    merged: dict[str, Captioned] = {}
    for image in images:
        first = merged.setdefault(str(image.image), image)
        if first is not image:
            captions = tuple(dict.fromkeys((*first.captions, *image.captions)))
            merged[str(image.image)] = replace(first, captions=captions)
    return list(merged.values())


def check_disjoint_images(splits: Splits[Captioned]) -> None:
    """Raise InputError for an image that is in two sets."""
    locations: dict[str, str] = {}
    for images in (splits.train, splits.valid, splits.test):
        for image in images:
            if (place := locations.get(str(image.image))) is not None:
                raise InputError(
                    f"{image.place}: image {image.image} is in another set too, {place}; "
                    "keep it in one set"
                )
        locations |= {str(image.image): image.place for image in images}


@dataclass(frozen=True)
class CaptionSample:
    """An image of a shard by its place there, with its captions."""

    part: Part
    captions: tuple[str, ...]
    place: str

    def captioned(self) -> Captioned:
        """Return the image, which is read when it is needed."""
        return Captioned(self.part, self.captions, self.place)


@dataclass(frozen=True, kw_only=True)
class CaptionShards(DataFiles[Captioned]):
    """Sets of .tar or .parquet files: one, or a folder or a pattern of several.

    In a tar file, consecutive files of one name up to its first dot are a sample: an
    image, and its captions in a `.txt` file, one a line, or under `captions` in a
    `.json` file. Without `valid`, images of the training set are held out.
    """

    kind: Literal["caption-shards"] = "caption-shards"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    image: str = "image"
    """The column of the bytes of the image's file in a Parquet table."""
    captions: str = "captions"
    """The column of the captions there, or their key in JSON."""

    recognised: ClassVar[tuple[Kind, ...]] = ("shards",)
    example_type = CaptionSample
    convert = CaptionSample.captioned
    noun = "images"
    expected = "shards of images with captions, as .tar files"

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and captions of a Parquet table."""
        return {"image": self.image, "captions": self.captions}

    def keep_valid(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the held out images, which stay on disk."""
        return examples

    def examples(self, path: str) -> Iterator[CaptionSample]:
        """Yield the samples of shards. Raises InputError for an invalid file."""
        for file in shard_files(path):
            if suffix(file) == "parquet":
                hint = f" under {self.captions!r}"
                for place, part, value in parquet_parts(file, self.columns):
                    captions = parse_captions(value, place, hint)
                    yield CaptionSample(part, captions, place)
                continue
            hint = (
                f"; expected a {CAPTION_FILE} file, or a {RECORD} file with "
                f"{self.captions!r}"
            )
            for key, parts, image in tar_samples(file):
                value = read_label(
                    file, parts, (CAPTION_FILE, str.splitlines), self.captions
                )
                captions = parse_captions(value, f"{file}: sample {key!r}", hint)
                part = Part(file, *parts[image])
                yield CaptionSample(part, captions, f"{file}:{key}{image}")


def parse_captions(value: Any, place: str, hint: str) -> tuple[str, ...]:
    """Return the captions of a text or a list, without blank ones.

    Raises:
        InputError: There is none, or an item is no text.
    """
    items = value if isinstance(value, list) else [value]
    captions = [item.strip() for item in items if isinstance(item, str)]
    if len(captions) < len(items) or not any(captions):
        raise InputError(f"{place}: has no caption{hint}")
    return tuple(filter(None, captions))


@dataclass(frozen=True, repr=False)
class CaptionBatch(Batch):
    """Images of one size, with captions for a decoder.

    The decoder reads `target_in` and predicts `target_out`, padded with `IGNORED`.
    """

    images: Float[Tensor, "batch channel height width"]
    source_lengths: Int[Tensor, " batch"]
    """The cells of each image."""
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    """The tokens of all captions, the end included."""
    links: None = None


def collate_captions(
    examples: Sequence[tuple[Float[Tensor, "channel height width"], list[int]]],
    cells: int,
    special: SpecialTokens = SPECIAL,
) -> CaptionBatch:
    """Collate images of so many cells with the ids of a caption each.

    Raises:
        ValueError: There are no examples.
    """
    words = collate([([], ids) for _, ids in examples], target=special)
    images = torch.stack([image for image, _ in examples])
    lengths = torch.full((len(examples),), cells)
    return CaptionBatch(
        images, lengths, words.target_in, words.target_out, words.target_tokens
    )


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
    train: int = 6_000
    valid: int = 300
    test: int = 500
    size: int = 64
    """The side of an image in pixels."""

    most_train = 100_000  # of 64 x 64 pixels, 1.2 GB
    most_held_out = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 16 <= self.size <= 256:
            raise InputError(f"scenes: size is {self.size}; expected 16 to 256 pixels")

    def load(self) -> Splits[Captioned]:
        """Generate all three sets, each from a generator of its own."""
        return Splits(self._make("train"), self._make("valid"), self.tests())

    def tests(self) -> list[Captioned]:
        """Generate the test set."""
        return self._make("test")

    def _make(self, name: str) -> list[Captioned]:
        random = Random(f"scenes/{self.seed}/{name}")
        count = getattr(self, name)
        return [
            make_scene(random, self.size, f"scenes {name} {number}")
            for number in range(1, count + 1)
        ]


def make_scene(random: Random, size: int, place: str) -> Captioned:
    """Draw two shapes, with their captions and boxes."""
    shapes, colors = random.sample(list(SHAPES), 2), random.sample(list(COLORS), 2)
    direction = random.choice(list(RELATIONS))
    pixels = np.full((size, size, 3), random.randint(30, 130), dtype=np.uint8)
    boxes: dict[str, Box] = {}
    names: dict[str, str] = {}
    for number, (shape, color) in enumerate(zip(shapes, colors, strict=True)):
        half = random.uniform(SMALLEST, LARGEST)
        y = random.uniform(half, 0.5 - half) + 0.5 * number
        x = random.uniform(half, 1 - half)
        if direction == "across":
            y, x = x, y
        paint_shape(pixels, shape, COLORS[color], (y, x), half)
        boxes[shape] = (y - half, x - half, y + half, x + half)
        names[shape] = f"a {color} {shape}"
    return Captioned(pixels, tuple(describe_scene(names, boxes)), place, boxes)


def describe_scene(names: Mapping[str, str], boxes: Mapping[str, Box]) -> Iterator[str]:
    """Yield two captions for each direction in which two shapes do not overlap."""
    for axis, (before, behind) in enumerate(RELATIONS.values()):
        first, second = sorted(names, key=lambda shape, axis=axis: boxes[shape][axis])
        if boxes[first][axis + 2] <= boxes[second][axis]:
            yield f"{names[first]} is {before} {names[second]}"
            yield f"{names[second]} is {behind} {names[first]}"


def paint_shape(
    pixels: Pixels,
    shape: str,
    color: tuple[int, int, int],
    middle: tuple[float, float],
    half: float,
) -> None:
    """Paint a shape; its middle and half its side are shares of the image's side."""
    y, x = ((np.arange(len(pixels)) + 0.5) / len(pixels) - at for at in middle)
    inside = SHAPES[shape](y[:, None] / half + 0 * x, x / half + 0 * y[:, None])
    pixels[inside] = color
