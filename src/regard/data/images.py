"""Images with their classes: folders, tables and IDX files."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from regard.config.file_kinds import Kind, is_table_name
from regard.config.yaml_tree import format_setting
from regard.data.arrays import read_idx
from regard.data.data_files import DataFiles
from regard.data.files import check_classes, folders_in, is_hidden
from regard.data.media_files import MediaFiles
from regard.data.rows import Row, RowCollector, iterate_converted
from regard.data.tables import Tabular
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
class ImageSets(DataFiles[LabelledImage]):
    """A path for each set; an imported run has none for training.

    Without `valid`, the share `held_out` of each class is the validation set.
    """

    train: str | None = None
    valid: str | None = None
    test: str | None = None

    expected = "images, as --set data.train=PATH"
    noun = "images"

    def stratum(self, example: Any) -> str:
        """Return the class of an image."""
        return example.label

    def skipping(self, skip_bad: bool) -> "ImageSets":
        """Return the section that with `skip_bad` skips bad files, if it can."""
        return self


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

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a folder. Raises InputError for files that are no images."""
        root = Path(path)
        if not root.is_dir():
            raise InputError(
                f"{path}: {'is a file' if root.exists() else 'no such folder'}; expected a folder a class"
            )
        collector = RowCollector(path, self.skip_bad)
        folders = folders_in(root)
        check_classes(path, [folder.name for folder in folders])
        for folder in class_folders(root, folders, self.depth):
            for file in sorted(
                path
                for path in folder.rglob("*")
                if not path.is_dir() and not is_hidden(path)
            ):
                if fault := self._fault(file):
                    collector.refuse_record(f"{file}: {fault}")
                else:
                    collector.kept += 1
                    label = folder.relative_to(root).as_posix()
                    yield LabelledImage(file, label, str(file))
        if not collector.kept and not collector.skipped:
            raise InputError(f"{path}: {_no_folders(root)}")
        collector.check(collector.kept)

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
    count = sum(_is_image(path) for path in root.iterdir() if path.is_file())
    if not count:
        return "has no folders with images; expected a folder a class, with its images"
    near = [
        path
        for folder in (root, root.parent)
        for path in sorted(folder.iterdir())
        if path.is_file()
    ]
    table = next(
        (
            str(path)
            for path in near
            if is_table_name(path.name) and not is_hidden(path)
        ),
        None,
    )
    named = (
        format_setting("data.train", table)
        if table
        else "name one with --set data.train=FILE"
    )
    expected = f"expected a folder a class, or a table with a row an image: {named}"
    return f"has {count:,} {'image' if count == 1 else 'images'} and no folders with images; {expected}"


def class_folders(
    root: Path, folders: Sequence[Path], depth: int | None
) -> Sequence[Path]:
    """The folders of classes in a root with these folders. Raises InputError where they may be one level deeper, and
    for images above them."""
    own = [
        next(
            (path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES), None
        )
        for folder in folders
    ]
    if depth == 2:
        if above := next((image for image in own if image is not None), None):
            raise InputError(
                f"{above}: is above the folders of classes, since data.depth is 2; move it into one"
            )
        return [item for folder in folders for item in folders_in(folder)]
    if depth is not None or any(own):
        return folders
    inner = [
        item
        for folder in folders
        for item in folders_in(folder)
        if any(map(_is_image, item.rglob("*")))
    ]
    if inner:
        names = ", ".join(folder.name for folder in folders[:2]) + (
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
    return format_setting("data.train", str(folders[0])) + (
        "" if classes else " --set data.depth=2"
    )


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not is_hidden(file)


@dataclass(frozen=True, kw_only=True)
class IdxImages(ImageSets):
    """Each set is an IDX file of images as in MNIST, optionally .gz. The classes are in a second file, with
    `labels-idx1` in its name instead of `images-idx3`. `classes` are their names, in the order of their numbers."""

    kind: Literal["idx"] = "idx"
    classes: tuple[str, ...] = ()

    recognised: ClassVar[tuple[Kind, ...]] = ("idx",)

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a file. Raises InputError as `load` does."""
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
        for number, (image, label) in enumerate(pairs, 1):
            yield LabelledImage(image, names[label], f"{path}:{number}")


def file_of(value: Any) -> Any:
    """The bytes or else the path of an image that is an object with both, as `datasets` writes it; another value as it
    is."""
    return (
        value.get("bytes") or value.get("path")
        if isinstance(value, Mapping) and "bytes" in value
        else value
    )


def digest_image(image: Image) -> str:
    """A digest of an image's bytes."""
    if isinstance(image, np.ndarray | bytes):
        return hashlib.sha256(
            image if isinstance(image, bytes) else image.tobytes()
        ).hexdigest()
    with Path(image).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, kw_only=True)
class ImageRows(Tabular):
    """The reading of tables of images and their classes, a part of `data:` sections.

    A path may be a folder with one such table.

    images: The folder of the images, seen from here or from the table's folder; without
        it they are beside the table or in a folder there.
    image: The column of the image's file, or its number from 1.
    label: The column of its class, or its number from 1.
    """

    images: str = "."
    image: str | int = "image"
    label: str | int = "label"

    recognised: ClassVar[tuple[Kind, ...]] = ("table", "folder of a table")

    @property
    def image_columns(self) -> dict[str, str | int]:
        """The columns of image and class."""
        return {"image": self.image, "label": self.label}

    @property
    def files(self) -> MediaFiles:
        """Where the images are."""
        return MediaFiles(
            "image", "table of images", SUFFIXES, "data.images", self.images
        )

    def read_images(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a table.

        Raises:
            InputError: A record is invalid, or an image is not there.
        """
        table = self.files.table_in(Path(path)) if Path(path).is_dir() else None
        rows = self.streamed(table or path, self.image_columns, numbers=(self.label,))
        return iterate_converted(rows, self._find_image, path, skip_bad=self.skip_bad)

    def _find_image(self, row: Row) -> LabelledImage:
        file = self.files.find(row.fields[0], row.place)
        if self.skip_bad:  # before images are held out, so that none of those is bad
            read_image(file)
        return LabelledImage(file, row.fields[1], row.place)


@dataclass(frozen=True, kw_only=True)
class ImageTables(ImageRows, ImageSets):
    """A table for each set with images and their classes (`ImageRows`)."""

    kind: Literal["image-tables"] = "image-tables"

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and class."""
        return self.image_columns

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a table. Raises InputError as `load` does."""
        return self.read_images(path)

    def skipping(self, skip_bad: bool) -> "ImageTables":
        """Return the section that with `skip_bad` skips bad files."""
        return self.with_columns(None, skip_bad=skip_bad)
