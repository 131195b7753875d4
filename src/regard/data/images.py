"""Images with their classes: the `data:` section of a run file for image classification."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.config.recognition import Kind, named_table
from regard.config.yaml_nodes import setting
from regard.data.bad_records import RowCollector
from regard.data.idx import read_idx
from regard.data.opening import hidden
from regard.data.set_files import SETS
from regard.data.splits import Splits, check_share, spread
from regard.errors import InputError
from regard.images import SUFFIXES, Image, read_image

Depth = Literal[1, 2] | None
"""How deep the folders of classes are."""


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image (a path or an array, or what reads the bytes of its file) with its class. `place` names its origin in
    error messages."""

    source: Image | Callable[[], bytes]
    label: str
    place: str

    @property
    def image(self) -> Image:
        """The image; the bytes of its file are read whenever they are needed."""
        return self.source() if callable(self.source) else self.source


@dataclass(frozen=True, kw_only=True)
class ImageSets(ABC):
    """One path per set; an imported run has none for training. Without `valid`, the share `held_out` of the training
    set, evenly spaced, is the validation set."""

    kind: str = ""
    train: str | None = None
    valid: str | None = None
    test: str | None = None
    held_out: float = 0.1

    def __post_init__(self) -> None:
        check_share(self.held_out, "images")

    def load(self) -> Splits[LabelledImage]:
        """Read all sets. Raises InputError naming the file at fault."""
        if self.train is None:
            raise InputError(
                "data.train is not given; expected images, as --set data.train=PATH"
            )
        train = self.read(self.train)
        if self.valid is not None:
            return Splits(train, self.read(self.valid), self.tests())
        return Splits(
            *spread(train, self.held_out, f"{self.train}: {len(train)} images"),
            self.tests(),
        )

    def tests(self) -> Sequence[LabelledImage]:
        """The images of the test set, or none if there is no test set. Raises InputError as `load` does."""
        return self.read(self.test) if self.test else []

    def skipping(self, skip_bad: bool) -> "ImageSets":
        """The section that with `skip_bad` skips bad files; of another one that has none, itself."""
        return self

    @abstractmethod
    def read(self, path: str) -> Sequence[LabelledImage]:
        """Read the images of another set. Raises InputError as `load` does."""


@dataclass(frozen=True, kw_only=True)
class ImageFolders(ImageSets):
    """Each set is a folder with one folder of image files per class. The folder's name is the class. `skip_bad` skips
    files that are no images or broken ones, and counts them. With `depth` 2 the classes are the folders in those
    folders, called `outer/inner`; it is required where no folder has images of its own."""

    kind: Literal["image-folders"] = "image-folders"
    skip_bad: bool = False
    depth: Depth = None

    recognised: ClassVar[tuple[Kind, ...]] = ("folders",)

    def skipping(self, skip_bad: bool) -> "ImageFolders":
        return replace(self, skip_bad=skip_bad or self.skip_bad)

    def read(self, path: str) -> list[LabelledImage]:
        """Read another folder. Raises InputError as `load` does, and for files that are no images."""
        root = Path(path)
        if not root.is_dir():
            raise InputError(
                f"{path}: {'is a file' if root.exists() else 'no such folder'}; expected a folder a class"
            )
        collector, found = RowCollector(path, self.skip_bad), []
        folders = folders_in(root)
        check_classes(path, [folder.name for folder in folders])
        for folder in class_folders(root, folders, self.depth):
            for file in sorted(
                each
                for each in folder.rglob("*")
                if not each.is_dir() and not hidden(each)
            ):
                if fault := self._fault(file):
                    collector.refuse_record(f"{file}: {fault}")
                else:
                    found.append(
                        LabelledImage(
                            file, folder.relative_to(root).as_posix(), str(file)
                        )
                    )
        if found or collector.skipped:
            collector.check(len(found))
        else:
            raise InputError(f"{path}: {_no_folders(root)}")
        return found

    def _fault(self, file: Path) -> str:
        """Why a file is no image by its name, and with `skip_bad` by its content; empty for one that may be."""
        if file.suffix.lower() not in SUFFIXES:
            return f"is no image by its name; expected {', '.join(sorted(SUFFIXES))}"
        if file.exists() and not file.is_file():
            return "is no regular file; expected an image"
        if self.skip_bad:  # before images are held out, so that none of those is bad
            try:
                read_image(file)
            except InputError as error:
                return str(error).removeprefix(f"{file}: ")
        return ""


def _no_folders(root: Path) -> str:
    """What a folder without folders of images has, and the table that may list its images: one in it or beside it."""
    count = sum(_is_image(each) for each in root.iterdir() if each.is_file())
    if not count:
        return "has no folders with images; expected a folder a class, with its images"
    near = [
        each
        for folder in (root, root.parent)
        for each in sorted(folder.iterdir())
        if each.is_file()
    ]
    table = next(
        (str(each) for each in near if named_table(each.name) and not hidden(each)),
        None,
    )
    named = (
        setting("data.train", table) if table else "name one with --set data.train=FILE"
    )
    expected = f"expected a folder a class, or a table with a row an image: {named}"
    return f"has {count:,} {'image' if count == 1 else 'images'} and no folders with images; {expected}"


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, sorted."""
    return sorted(
        each for each in folder.iterdir() if each.is_dir() and not hidden(each)
    )


def class_folders(
    root: Path, folders: Sequence[Path], depth: int | None
) -> Sequence[Path]:
    """The folders of classes in a root with these folders. Raises InputError where they may be one level deeper, and
    for images above them."""
    own = [
        next(
            (each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES), None
        )
        for folder in folders
    ]
    if depth == 2:
        if above := next((image for image in own if image is not None), None):
            raise InputError(
                f"{above}: is above the folders of classes, since data.depth is 2; move it into one"
            )
        return [each for folder in folders for each in folders_in(folder)]
    if depth is not None or any(own):
        return folders
    inner = [
        each
        for folder in folders
        for each in folders_in(folder)
        if any(map(_is_image, each.rglob("*")))
    ]
    if inner:
        names = ", ".join(each.name for each in folders[:2]) + (
            ", ..." if len(folders) > 2 else ""
        )
        raise InputError(
            f"{root}: its folders ({names}) have no images of their own but {len(inner)} folders with images, such as "
            f"{inner[0].relative_to(root)}: {_deeper(folders)}"
        )
    return folders


def _deeper(folders: Sequence[Path]) -> str:
    """The settings that name the folders of classes which are below these."""
    if len(folders) > 1:
        return (
            "train with --set data.depth=2 if those are the classes and --set data.depth=1 if not, or name the folder "
            "of the classes"
        )
    classes = any(
        _is_image(file)
        for folder in folders_in(folders[0])
        for file in folder.iterdir()
    )
    return setting("data.train", str(folders[0])) + (
        "" if classes else " --set data.depth=2"
    )


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not hidden(file)


@dataclass(frozen=True, kw_only=True)
class IdxImages(ImageSets):
    """Each set is an IDX file of images as in MNIST, optionally .gz. The classes are in a second file, with
    `labels-idx1` in its name instead of `images-idx3`. `classes` are their names, in the order of their numbers."""

    kind: Literal["idx"] = "idx"
    classes: tuple[str, ...] = ()

    recognised: ClassVar[tuple[Kind, ...]] = ("idx",)

    def read(self, path: str) -> list[LabelledImage]:
        """Read another file. Raises InputError as `load` does."""
        file = Path(path)
        if not file.exists():
            raise InputError(f"{path}: no such file or folder; check the path")
        name = file.name.replace("images", "labels").replace("idx3", "idx1")
        if name == file.name:
            raise InputError(
                f"{path}: has no images-idx3 in its name, by which the file of its classes is found"
            )
        images, labels = read_idx(file, 3), read_idx(file.with_name(name), 1)
        if len(images) != len(labels):
            raise InputError(
                f"{path}: {len(images)} images, but {len(labels)} classes in {name}"
            )
        if self.classes and labels.max() >= len(self.classes):
            raise InputError(
                f"{path}: class {labels.max()}, but {len(self.classes)} names in data.classes; add it"
            )
        names = self.classes or tuple(map(str, range(256)))
        pairs = zip(images, labels.tolist(), strict=True)
        return [
            LabelledImage(image, names[label], f"{path}:{place}")
            for place, (image, label) in enumerate(pairs, 1)
        ]


def check_classes(path: str, names: Sequence[str]) -> None:
    """Raises InputError for folders named after sets, which are one level above the folders of classes."""
    found = {SETS[name.lower()]: name for name in names if name.lower() in SETS}
    if len(names) > 1 and len(found) == len(names):
        options = " ".join(
            setting(f"data.{key}", str(Path(path) / name))
            for key, name in found.items()
        )
        raise InputError(
            f"{path}: its folders are the sets {', '.join(names)} and no classes; name each: {options}"
        )


def file_of(value: Any) -> Any:
    """The bytes or else the path of an image that is an object with both, as `datasets` writes it; another value as it
    is."""
    return (
        value.get("bytes") or value.get("path")
        if isinstance(value, Mapping) and "bytes" in value
        else value
    )


def contents(image: Image) -> str:
    """A digest of an image's bytes."""
    if isinstance(image, np.ndarray | bytes):
        return hashlib.sha256(
            image if isinstance(image, bytes) else image.tobytes()
        ).hexdigest()
    with Path(image).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
