"""Images with their classes: what the `data:` section of a run file for image classification becomes."""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from regard.data.idx import read_idx
from regard.data.splits import Splits, check_share, spread
from regard.errors import InputError
from regard.images import SUFFIXES, Image


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image, by its path or as an array, its class, and where it came from, for error messages."""

    image: Image
    label: str
    place: str


@dataclass(frozen=True, kw_only=True)
class ImageSets(ABC):
    """A path a set; none to train on in a run that was imported. Without `valid` a share of the training set,
    `held_out`, is for validation: images that stand equally far from each other."""

    train: str | None = None
    valid: str | None = None
    test: str | None = None
    held_out: float = 0.1

    def __post_init__(self) -> None:
        check_share(self.held_out, "images")

    def load(self) -> Splits[LabelledImage]:
        """Reads all sets. Raises InputError naming the file for whatever cannot be used."""
        if self.train is None:
            raise InputError("data.train is not given; expected images, as --set data.train=PATH")
        train = self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), self.tests())
        return Splits(*spread(train, self.held_out, f"{self.train}: {len(train)} images"), self.tests())

    def tests(self) -> list[LabelledImage]:
        """Those of the test set; none without one. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    @abstractmethod
    def read(self, path: str) -> list[LabelledImage]:
        """Those of another set. Raises InputError as `load` does."""


@dataclass(frozen=True, kw_only=True)
class ImageFolders(ImageSets):
    """Each set is a folder that has a folder of image files for each class, which is called as the folder is."""

    kind: Literal["image-folders"] = "image-folders"

    def read(self, path: str) -> list[LabelledImage]:
        """Those of another folder. Raises InputError as `load` does, and for files that are no images."""
        root = Path(path)
        if not root.is_dir():
            raise InputError(f"{path}: {'is a file' if root.exists() else 'no such folder'}; expected a folder a class")
        found = []
        for folder in sorted(each for each in root.iterdir() if each.is_dir() and not hidden(each)):
            for file in sorted(each for each in folder.rglob("*") if not each.is_dir() and not hidden(each)):
                if file.suffix.lower() not in SUFFIXES:
                    raise InputError(f"{file}: is no image by its name; expected {', '.join(sorted(SUFFIXES))}")
                found.append(LabelledImage(file, folder.name, str(file)))
        if not found:
            raise InputError(f"{path}: has no folders with images; expected a folder a class, with its images")
        return found


@dataclass(frozen=True, kw_only=True)
class IdxImages(ImageSets):
    """Each set is an IDX file of images, as MNIST's are, optionally .gz; its classes are beside it in the file that has
    `labels-idx1` where its name has `images-idx3`. `classes` are their names, in the order of their numbers."""

    kind: Literal["idx"] = "idx"
    classes: tuple[str, ...] = ()

    def read(self, path: str) -> list[LabelledImage]:
        """Those of another file. Raises InputError as `load` does."""
        file = Path(path)
        name = file.name.replace("images", "labels").replace("idx3", "idx1")
        if name == file.name:
            raise InputError(f"{path}: has no images-idx3 in its name, by which the file of its classes is found")
        images, labels = read_idx(file, 3), read_idx(file.with_name(name), 1)
        if len(images) != len(labels):
            raise InputError(f"{path}: {len(images)} images, but {len(labels)} classes in {name}")
        if self.classes and labels.max() >= len(self.classes):
            raise InputError(f"{path}: class {labels.max()}, but {len(self.classes)} names in data.classes; add it")
        names = self.classes or tuple(map(str, range(256)))
        pairs = zip(images, labels.tolist(), strict=True)
        return [LabelledImage(image, names[label], f"{path}:{place}") for place, (image, label) in enumerate(pairs, 1)]


def contents(image: Image) -> str:
    """A digest of an image's bytes."""
    found = image.tobytes() if isinstance(image, np.ndarray) else Path(image).read_bytes()
    return hashlib.sha256(found).hexdigest()


def hidden(path: Path) -> bool:
    """Whether a name begins with a dot."""
    return path.name.startswith(".")
