"""The `data:` section of a run file for captioning: images with captions, from files, and their batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.data.bad_records import Row
from regard.data.batching import Batch, collate
from regard.data.splits import Splits
from regard.data.tables import read_table
from regard.errors import InputError
from regard.images import Image
from regard.shapes import Float, Int
from regard.text.special import SPECIAL, SpecialTokens

Box = tuple[float, float, float, float]
"""Top, left, bottom and right of a part of an image, as shares of its height and width."""
SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
"""The names of each set in the column `split`."""


@dataclass(frozen=True, eq=False)
class Captioned:
    """An image, by its path or as an array; its reference captions; its `file:line`, for messages. `boxes` locate the
    objects that words of the captions name."""

    image: Image
    captions: tuple[str, ...]
    place: str
    boxes: Mapping[str, Box] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CaptionTables:
    """A .tsv, .csv or .jsonl file a set, optionally .gz, with the columns `image`, a file in the folder `images`, and
    `captions`, a text or in JSON a list of them. With `split`, a column of train, valid (or val, or dev) and test, all
    sets are in the file `train`."""

    kind: Literal["captions"] = "captions"
    train: str
    valid: str | None = None
    test: str | None = None
    images: str = "."
    image: str = "image"
    captions: str = "captions"
    split: str | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.split is None and self.valid is None:
            raise InputError("captions: give valid, a file for validation, or split, the column with each record's set")
        if self.split is not None and (self.valid or self.test):
            raise InputError("captions: with split all sets are in the file train; remove valid and test")

    def load(self) -> Splits[Captioned]:
        """Read all sets. Raises InputError with file and line for an invalid record."""
        if self.split is None:
            return Splits(self._read(self.train), self._read(self.valid), self._read(self.test))
        rows = self._rows(self.train)
        known = [name for names in SPLITS.values() for name in names]
        for row in rows:
            if row.fields[0] not in known:
                raise InputError(f"{row.place}: {self.split} is {row.fields[0]!r}; expected one of {', '.join(known)}")
        sets = {name: [self._of(row) for row in rows if row.fields[0] in names] for name, names in SPLITS.items()}
        for name in ("train", "valid"):
            if not sets[name]:
                raise InputError(f"{self.train}: no record whose {self.split} is {' or '.join(SPLITS[name])}")
        return Splits(sets["train"], sets["valid"], sets["test"])

    def tests(self) -> Sequence[Captioned]:
        """The images of the test set; none without one. Raises InputError as `load` does."""
        return self._read(self.test) if self.split is None else self.load().test

    def _read(self, path: str | None) -> list[Captioned]:
        return [] if path is None else [self._of(row) for row in self._rows(path)]

    def _rows(self, path: str) -> list[Row]:
        first = () if self.split is None else (self.split,)
        return read_table(path, (*first, self.image, self.captions), skip_bad=self.skip_bad)

    def _of(self, row: Row) -> Captioned:
        file = Path(self.images) / row.fields[-2]
        if not file.is_file():
            raise InputError(f"{row.place}: no image {file}; set data.images to the folder that it is in")
        return Captioned(file, (row.fields[-1], *row.others), row.place)


@dataclass(frozen=True)
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
    return CaptionBatch(images, lengths, words.target_in, words.target_out, words.target_tokens)
