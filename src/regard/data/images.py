"""Images with their classes: folders, tables and IDX files."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.data.arrays import read_idx
from regard.data.data_files import DataFiles
from regard.data.files import check_classes, folders_in, is_hidden
from regard.data.media_files import MediaFiles
from regard.data.rows import Row, RowCollector, iterate_converted
from regard.data.tables import Columns, Tabular
from regard.errors import InputError
from regard.images import SUFFIXES, Image, read_image

Depth = Literal[1, 2] | None
"""How deep the folders of classes are."""


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image with its class.

    Attributes:
        source: A path, an array, or what reads the bytes of the image's file.
        label: The class.
        place: The origin, for messages.
    """

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


@dataclass(frozen=True, kw_only=True)
class ImageFolders(ImageSets):
    """Each set is a folder with a folder of image files for each class.

    The folder's name is the class.

    Attributes:
        skip_bad: Skip files that are no images or broken ones, and count them.
        depth: With 2 the classes are the folders in those folders, called
            `outer/inner`. It is required where no folder has images of its own.
    """

    kind: Literal["image-folders"] = "image-folders"
    skip_bad: bool = False
    depth: Depth = None

    recognised = ("folders",)

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a folder. Raises InputError for files that are none."""
        root = Path(path)
        if not root.is_dir():
            raise InputError(
                f"{path}: is no folder; expected one with a folder a class"
            )
        collector = RowCollector(path, self.skip_bad)
        folders = self._class_folders(root)
        for folder in folders:
            for file in sorted(folder.rglob("*")):
                if file.is_dir() or is_hidden(file):
                    continue
                if fault := self._fault(file):
                    collector.refuse_record(f"{file}: {fault}")
                    continue
                collector.kept += 1
                label = folder.relative_to(root).as_posix()
                yield LabelledImage(file, label, str(file))
        if not collector.kept and not collector.skipped:
            raise InputError(
                f"{path}: has no folders with images; expected a folder a class with its "
                "images, or a table with a row an image"
            )
        collector.check()

    def _class_folders(self, root: Path) -> Sequence[Path]:
        """Return the folders of classes.

        Raises:
            InputError: They are probably on another level.
        """
        check_classes(str(root))
        folders, above = folders_in(root), find_above(root)
        if self.depth == 2 and above:
            raise InputError(
                f"{above}: is above the folders of classes, since data.depth is 2; "
                "move it into one"
            )
        inner = [folder for outer in folders for folder in folders_in(outer)]
        for folder in inner if self.depth is None and not above else ():
            if any(map(_is_image, folder.rglob("*"))):
                raise InputError(
                    f"{root}: its folders have no images of their own, but folders with "
                    f"images, such as {folder.relative_to(root)}; set "
                    "--set data.depth=2 if those are the classes and "
                    "--set data.depth=1 if not, or name the folder of the classes"
                )
        return inner if self.depth == 2 else folders

    def _fault(self, file: Path) -> str:
        """Return why a file is no image; empty for one that may be."""
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


def find_above(root: Path) -> Path | None:
    """Return the first image of the folders in a folder that is in none of theirs."""
    files = (file for folder in folders_in(root) for file in folder.iterdir())
    return next(filter(_is_image, files), None)


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not is_hidden(file)


@dataclass(frozen=True, kw_only=True)
class IdxImages(ImageSets):
    """Each set is an IDX file of images as in MNIST, optionally .gz.

    The classes are in a second file, with `labels-idx1` in its name instead of
    `images-idx3`.

    Attributes:
        classes: The names of the classes, in the order of their numbers.
    """

    kind: Literal["idx"] = "idx"
    classes: tuple[str, ...] = ()

    recognised = ("idx",)

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a file. Raises InputError as `load` does."""
        file = Path(path)
        name = file.name.replace("images", "labels").replace("idx3", "idx1")
        if name == file.name:
            raise InputError(
                f"{path}: has no images-idx3 in its name, by which the file of its "
                "classes is found"
            )
        images = read_idx(file, 3)
        labels = read_idx(file.with_name(name), 1)
        names = self.classes or tuple(map(str, range(256)))
        if len(images) != len(labels) or labels.max() >= len(names):
            raise InputError(
                f"{path}: {len(images)} images; {name} has {len(labels)} classes up to "
                f"{labels.max()}, and {len(names)} have a name in data.classes; expected "
                "a class for each image, and a name for each class"
            )
        pairs = zip(images, labels.tolist(), strict=True)
        for number, (image, label) in enumerate(pairs, 1):
            yield LabelledImage(image, names[label], f"{path}:{number}")


def file_of(value: Any) -> Any:
    """Return the bytes or else the path of an image as `datasets` writes it.

    A value of another form is returned as it is.
    """
    if isinstance(value, Mapping) and "bytes" in value:
        return value["bytes"] or value.get("path")
    return value


def digest_image(image: Image) -> str:
    """Return a digest of an image's bytes."""
    if isinstance(image, str | Path):
        with Path(image).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    content = image.tobytes() if isinstance(image, np.ndarray) else image
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ImageRows(Tabular):
    """The reading of tables of images and their classes, a part of `data:` sections.

    A path may be a folder with one such table.

    Attributes:
        images: The folder of the images, seen from here or from the table's folder;
            without it they are beside the table or in a folder there.
        image: The column of the image's file, or its number from 1.
        label: The column of its class, or its number from 1.
    """

    images: str = "."
    image: str | int = "image"
    label: str | int = "label"

    recognised = ("table", "folder of a table")

    @property
    def columns(self) -> Columns:
        """The columns of image and class."""
        return {"image": self.image, "label": self.label}

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

    def read_images(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a table.

        Raises:
            InputError: A record is invalid, or an image is not there.
        """
        table = self.files.table_of(path)
        rows = self.stream_rows(table, self.columns, numbers=(self.label,))
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

    def examples(self, path: str) -> Iterator[LabelledImage]:
        """Yield the images of a table. Raises InputError as `load` does."""
        return self.read_images(path)
