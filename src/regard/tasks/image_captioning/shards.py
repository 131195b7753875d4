"""Images with captions in tar files, in the layout of WebDataset, or in Parquet tables."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from regard.config.recognition import Kind, suffix
from regard.data.columns import Ragged, Shard
from regard.data.image_shards import (
    RECORD,
    Part,
    parquet_parts,
    part_columns,
    shard_files,
    stated,
    stored_part,
    tar_samples,
)
from regard.data.splits import HeldOut, Splits
from regard.data.stored import Stored, is_large, stored
from regard.data.stored_pairs import held_out_rows
from regard.errors import InputError
from regard.tasks.image_captioning.data import Captioned

TEXT = ".txt"
"""The ending of the file with an image's captions, one a line."""


@dataclass(frozen=True)
class Sample:
    """An image of a shard with its captions and its name in messages."""

    part: Part
    captions: tuple[str, ...]
    place: str

    def captioned(self) -> Captioned:
        """The image, which is read when it is needed."""
        return Captioned(self.part.read, self.captions, self.place)


class StoredCaptions(Stored[Captioned]):
    """Images by the columns captions and place, and those of their parts."""

    def example(self, shard: Shard, place: int) -> Captioned:
        captions, origin = (
            shard.columns[name].text(place) for name in ("captions", "place")
        )
        return Sample(
            stored_part(shard, place), tuple(json.loads(captions)), origin
        ).captioned()

    @staticmethod
    def shard(samples: Sequence[Sample]) -> Shard:
        """Samples as a shard."""
        texts = {
            "captions": [json.dumps(each.captions) for each in samples],
            "place": [each.place for each in samples],
        }
        columns = {name: Ragged.of_texts(some) for name, some in texts.items()}
        return Shard(columns | part_columns([each.part for each in samples]), {})


@dataclass(frozen=True, kw_only=True)
class CaptionShards(HeldOut):
    """Each set is a .tar or a .parquet file, or a folder or a pattern of several. In a tar file, consecutive files of
    one name up to its first dot are a sample: an image, and its captions in a `.txt` file, one a line, or under
    `captions` in a `.json` file, a text or a list. In a Parquet table the columns `image` and `captions` have the bytes
    and the captions. Without `valid`, images of the training set are held out.

    image: The column of the bytes of the image's file in a Parquet table.
    captions: The column of the captions there, or their key in JSON.
    """

    kind: Literal["caption-shards"] = "caption-shards"
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    image: str = "image"
    captions: str = "captions"

    recognised: ClassVar[tuple[Kind, ...]] = ("shards",)

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and captions of a Parquet table."""
        return {"image": self.image, "captions": self.captions}

    def load(self) -> Splits[Captioned]:
        """Read the indices of all sets. Raises InputError naming the file at fault."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected shards of images with captions, as .tar files"
            )
        train = self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), self.tests())
        if isinstance(train, StoredCaptions):
            rest, held, name = held_out_rows(self, train, "images")
            return Splits(
                train.part(rest, name),
                train.part(np.array(held), f"{name}, the others"),
                self.tests(),
            )
        return Splits(
            *self.hold_out(train, f"{self.train}: {len(train):,} images"), self.tests()
        )

    def tests(self) -> Sequence[Captioned]:
        """The images of the test set; none without one. Raises InputError as `load` does."""
        return [] if self.test is None else self.read(self.test)

    def read(self, path: str) -> Sequence[Captioned]:
        """Read the index of another set. Raises InputError as `load` does."""
        files = shard_files(path)
        if not is_large([path]):
            return [sample.captioned() for sample in self._samples(files)]
        settings = f"{self.image} {self.captions}"
        return stored(
            StoredCaptions, [path], settings, lambda: self._samples(files), lambda: 0
        )

    def _samples(self, files: Sequence[str]) -> Iterator[Sample]:
        for file in files:
            yield from (
                self._of_parquet(file)
                if suffix(file) == "parquet"
                else self._of_tar(file)
            )

    def _of_tar(self, file: str) -> Iterator[Sample]:
        for key, parts, image in tar_samples(file):
            value = stated(file, parts, (TEXT, str.splitlines), self.captions)
            what = (
                f"; expected a {TEXT} file, or a {RECORD} file with {self.captions!r}"
            )
            place = f"{file}: sample {key!r}"
            yield Sample(
                Part(file, *parts[image]),
                _captions(value, place, what),
                f"{file}:{key}{image}",
            )

    def _of_parquet(self, file: str) -> Iterator[Sample]:
        for place, part, value in parquet_parts(file, self.columns):
            yield Sample(
                part, _captions(value, place, f" under {self.captions!r}"), place
            )


def _captions(value: Any, place: str, what: str) -> tuple[str, ...]:
    """The captions of a text or a list, without blank ones. Raises InputError for none."""
    several = (
        [value] if isinstance(value, str) else value if isinstance(value, list) else []
    )
    found = tuple(
        each.strip() for each in several if isinstance(each, str) and each.strip()
    )
    if not found or len(found) < len(
        [each for each in several if not isinstance(each, str) or each.strip()]
    ):
        raise InputError(f"{place}: has no caption{what}")
    return found
