"""The `data:` section of a run file for captioning: images with captions, from files, and their batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from regard.config.recognition import Kind
from regard.data.bad_records import Row
from regard.data.batching import Batch, collate
from regard.data.beside import FilesBeside
from regard.data.splits import HeldOut, Splits
from regard.data.tables import Tabular
from regard.data.usable import usable
from regard.errors import InputError
from regard.images import SUFFIXES, Image, read_image
from regard.shapes import Float, Int
from regard.text.special import SPECIAL, SpecialTokens

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of a part of an image, as shares of its height and width."""
SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
"""The names of each set in the column `split`."""


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image (a path or an array, or what reads the bytes of its file); its reference captions; its `file:line`, for
    messages. `boxes` locate the objects that words of the captions name."""

    source: Image | Callable[[], bytes]
    captions: tuple[str, ...]
    place: str
    boxes: Mapping[str, Box] = field(default_factory=dict)

    @property
    def image(self) -> Image:
        """The image; the bytes of its file are read whenever they are needed."""
        return self.source() if callable(self.source) else self.source


@dataclass(frozen=True, kw_only=True)
class CaptionTables(HeldOut, Tabular):
    """A table a set with the columns `image`, a file in the folder `images`, or beside the table or in a folder there,
    and `captions`, a text or in JSON a list of them. A folder instead has one such table, which may end in .txt, or a
    .txt file of the same name for each image, with a caption a line. With `split`, a column of train, valid (or val, or
    dev) and test, all sets are in the file `train`; without `split` and `valid`, images of the training set are held
    out.

    images: The folder of the images, seen from here or from the table's folder.
    image: The column of the image's file.
    captions: The column of the caption or captions.
    split: The column that says of which set an image is: train, valid (or val, or dev) or test.
    """

    kind: Literal["captions"] = "captions"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    images: str = "."
    image: str | int = "image"
    captions: str | int = "captions"
    split: str | int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.split is not None and (self.valid or self.test):
            raise InputError(
                "captions: with split all sets are in the file train; remove valid and test"
            )

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and captions."""
        return {"image": self.image, "captions": self.captions}

    @property
    def files(self) -> FilesBeside:
        """Where the images are."""
        return FilesBeside(
            "image", "table of captions", SUFFIXES, "data.images", self.images
        )

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder")

    def load(self) -> Splits[Captioned]:
        """Read all sets. Raises InputError with file and line for an invalid record."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected a table of images and captions, or a folder of them, as --set "
                "data.train=PATH"
            )
        if self.split is not None:
            return self._by_column(self.train, self.split)
        train = self.read(self.train)
        if self.valid is not None:
            splits = Splits(train, self.read(self.valid), self.tests())
            return splits if self.train in (self.valid, self.test) else apart(splits)
        what = f"{self.train}: {len(train):,} images"
        return Splits(
            *self.hold_out(train, what, lambda each: str(each.image)), self.tests()
        )

    def tests(self) -> Sequence[Captioned]:
        """The images of the test set; none without one. Raises InputError as `load` does."""
        if self.split is not None:
            return self.load().test
        return [] if self.test is None else self.read(self.test)

    def read(self, path: str) -> list[Captioned]:
        """Read the images of another table or folder. Raises InputError as `load` does."""
        if Path(path).is_dir() and not self.files.table_in(Path(path)):
            found = self.files.texts(Path(path), self.files.within(Path(path)))
            return [
                Captioned(image, tuple(lines), str(image.with_suffix(".txt")))
                for image, lines in found
            ]
        return one_an_image(
            usable(self._rows(path), self._of, path, skip_bad=self.skip_bad)
        )

    def _by_column(self, path: str, split: str | int) -> Splits[Captioned]:
        """The sets of one table. Raises InputError as `load` does."""
        rows = self._rows(path)
        known = [name for names in SPLITS.values() for name in names]
        for row in rows:
            if row.fields[0] not in known:
                raise InputError(
                    f"{row.place}: {split} is {row.fields[0]!r}; expected one of {', '.join(known)}"
                )
        sets = {
            name: one_an_image(
                usable(some, self._of, path, skip_bad=self.skip_bad) if some else []
            )
            for name, names in SPLITS.items()
            for some in [[row for row in rows if row.fields[0] in names]]
        }
        for name in ("train", "valid"):
            if not sets[name]:
                raise InputError(
                    f"{path}: no record whose {split} is {' or '.join(SPLITS[name])}"
                )
        return apart(Splits(sets["train"], sets["valid"], sets["test"]))

    def _rows(self, path: str) -> list[Row]:
        first: dict[str, str | int] = (
            {} if self.split is None else {"split": self.split}
        )
        table = self.files.table_in(Path(path)) if Path(path).is_dir() else None
        return self.rows(table or path, first | self.columns)

    def _of(self, row: Row) -> Captioned:
        file = self.files.found(row.fields[-2], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return Captioned(file, (row.fields[-1], *row.others), row.place)


def one_an_image(found: Sequence[Captioned]) -> list[Captioned]:
    """The images with all captions of each: of rows with the same image the first has the captions of all."""
    images: dict[str, Captioned] = {}
    for each in found:
        first = images.setdefault(str(each.image), each)
        if first is not each:
            captions = tuple(dict.fromkeys((*first.captions, *each.captions)))
            images[str(each.image)] = replace(first, captions=captions)
    return list(images.values())


def apart(splits: Splits[Captioned]) -> Splits[Captioned]:
    """The same sets. Raises InputError for an image that is in two of them."""
    seen: dict[str, str] = {}
    for some in (splits.train, splits.valid, splits.test):
        for each in some:
            if (place := seen.get(str(each.image))) is not None:
                raise InputError(
                    f"{each.place}: image {each.image} is in another set too, {place}; keep it in one set"
                )
        seen |= {str(each.image): each.place for each in some}
    return splits


@dataclass(frozen=True, repr=False)
class CaptionBatch(Batch):
    """Images of one size, with ids (int64) padded on the right: the decoder reads `target_in` and should predict
    `target_out`, padded with `IGNORED`. `source_lengths` counts the cells of each image, and `target_tokens` the tokens
    of all captions, the end included. Captions have no word links: `links` is None."""

    images: Float[Tensor, "batch channel height width"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    target_tokens: int
    links: None = None


def collate_captions(
    examples: Sequence[tuple[Float[Tensor, "channel height width"], list[int]]],
    cells: int,
    special: SpecialTokens = SPECIAL,
) -> CaptionBatch:
    """Images of so many cells with the ids of a caption each. Raises ValueError for no examples at all."""
    words = collate([([], ids) for _, ids in examples], target=special)
    images = torch.stack([image for image, _ in examples])
    lengths = torch.full((len(examples),), cells)
    return CaptionBatch(
        images, lengths, words.target_in, words.target_out, words.target_tokens
    )
