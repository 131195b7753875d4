"""Images in tar files, in the layout of WebDataset, or in Parquet tables.

An index of a set is read once, and the content of an image whenever it is needed.
"""

import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from regard.config.file_kinds import compression, suffix
from regard.data.arrow_tables import (
    open_parquet,
    parquet_records,
    parquet_rows,
    values_in_group,
)
from regard.data.files import DAMAGED, list_set_files, open_file, read_error
from regard.data.images import ImageSets, LabelledImage, file_of
from regard.data.records import get_value, parse_json
from regard.data.tables import Columns, advise
from regard.errors import InputError
from regard.images import SUFFIXES

CLASS, RECORD = ".cls", ".json"
"""The ending of the file with an image's class, and of an object that has it."""
END = bytes(1024)
"""The end of a tar file."""
GROUPS = 4
"""Groups of rows of Parquet tables that stay in memory."""


@dataclass(frozen=True)
class ShardedImage:
    """The location of an image in a shard.

    Attributes:
        file: The shard.
        first: The offset in a tar file, or the group of rows in a Parquet table.
        second: The size in a tar file, or the row in the group.
        column: The column of a Parquet table.
    """

    file: str
    first: int
    second: int
    column: str | None = None

    def read(self) -> bytes:
        """Read the bytes of the image file. Raises InputError for a changed shard."""
        if self.column is not None:
            image = _read_group(self.file, self.first, self.column)[self.second]
            return image if isinstance(image, bytes) else b""
        with open_file(self.file) as stream:
            try:
                stream.seek(self.first)
                content = stream.read(self.second)
            except DAMAGED as error:
                raise read_error(self.file, self.first, error) from error
        if len(content) != self.second:
            end = self.first + self.second
            raise InputError(f"{self.file}: ends before byte {end}; was it changed?")
        return content


@dataclass(frozen=True)
class Sample:
    """An image of a shard with its class and its name in messages."""

    part: ShardedImage
    label: str
    place: str

    def image(self) -> LabelledImage:
        """Return the image, which is read when it is needed."""
        return LabelledImage(self.part.read, self.label, self.place)


@dataclass(frozen=True, kw_only=True)
class ImageShards(ImageSets):
    """Each set is a .tar or a .parquet file, or a folder or a pattern of several.

    In a tar file, consecutive files of one name up to its first dot are a sample: an
    image and its class, as text in a `.cls` file or under `label` in a `.json` file. A
    Parquet table has columns of the bytes and the class.

    Attributes:
        image: The column of the image in a Parquet table.
        label: The column of the class, or its key in a `.json` file.
        classes: The names of classes that are numbers, in their order; not needed for
            those that `datasets` writes into Parquet.
    """

    kind: Literal["image-shards"] = "image-shards"
    image: str = "image"
    label: str = "label"
    classes: tuple[str, ...] = ()

    recognised = ("shards",)
    example_type = Sample
    convert = Sample.image
    describing: ClassVar[tuple[str, ...]] = ("classes",)
    """The keys of one set: a recipe's names of classes are not those of another set."""

    @property
    def columns(self) -> Columns:
        """The columns of image and class of a Parquet table."""
        return {"image": self.image, "label": self.label}

    def examples(self, path: str) -> Iterator[Sample]:
        """Yield the samples of shards. Raises InputError naming the file at fault."""
        for file in list_set_files(path):
            if suffix(file) == "parquet":
                yield from self._read_parquet(file)
            elif suffix(file) == "tar" and not compression(file):
                yield from self._read_tar(file)
            else:
                raise InputError(
                    f"{file}: expected shards of images, uncompressed .tar or .parquet "
                    "files"
                )

    def _read_tar(self, file: str) -> Iterator[Sample]:
        key = None
        for key, group in groupby(_members(file), lambda member: member[0]):
            parts = {ending: part for _, ending, part in group}
            place = f"{file}: sample {key!r} ({', '.join(parts)})"
            images = [name for name in parts if PurePath(f"x{name}").suffix in SUFFIXES]
            if not images:
                raise InputError(f"{place}: has no image; expected one, such as .jpg")
            label: Any = None
            if CLASS in parts:
                label = parts[CLASS].read().decode(errors="replace").strip()
            elif RECORD in parts:
                record, _ = parse_json(parts[RECORD].read().decode(errors="replace"))
                label = record.get(self.label) if isinstance(record, dict) else None
            name = self._name(label, place)
            yield Sample(parts[images[0]], name, f"{file}:{key}{images[0]}")
        if key is None:
            raise InputError(f"{file}: has no images")

    def _read_parquet(self, file: str) -> Iterator[Sample]:
        with advise(self.columns):
            parquet_rows(file, [self.image, self.label])
        with open_parquet(file) as table:
            groups = range(table.num_row_groups)
            sizes = [table.metadata.row_group(group).num_rows for group in groups]
        rows = ((group, row) for group, size in enumerate(sizes) for row in range(size))
        records = parquet_records(file, [self.label])
        for number, (record, row) in enumerate(zip(records, rows, strict=True), 1):
            place = f"{file}:{number}"
            name = self._name(get_value(record, self.label), place)
            yield Sample(ShardedImage(file, *row, self.image), name, place)

    def _name(self, label: Any, place: str) -> str:
        """Return the name of a class. Raises InputError for none."""
        name = str(label)
        if not isinstance(label, str | int) or isinstance(label, bool) or not name:
            raise InputError(
                f"{place}: has no class; expected one under {self.label!r} in a Parquet "
                f"table or a {RECORD} file, or in a {CLASS} file"
            )
        if not self.classes or not name.isdecimal():
            return name
        if int(name) >= len(self.classes):
            raise InputError(
                f"{place}: class {name}, but {len(self.classes)} names in data.classes; "
                "add it"
            )
        return self.classes[int(name)]


def _members(file: str) -> Iterator[tuple[str, str, ShardedImage]]:
    """Yield the name up to its first dot, the ending, and the place of each file.

    Raises:
        InputError: The tar file is damaged or cut off.
    """
    with open_file(file) as stream:
        try:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - len(END)))
            if stream.read() != END:
                raise tarfile.ReadError("is cut off")  # tarfile reads what is there
            stream.seek(0)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                headers: Any = archive
                for member in archive:
                    headers.members.clear()  # else it keeps the headers of all
                    folder, _, name = member.name.rpartition("/")
                    if not member.isfile() or name.startswith("."):
                        continue
                    if member.offset_data + member.size > size:
                        raise tarfile.ReadError(f"is cut off in {member.name}")
                    stem, dot, ending = name.partition(".")
                    part = ShardedImage(file, member.offset_data, member.size)
                    yield str(PurePath(folder, stem)), f"{dot}{ending}".lower(), part
        except (tarfile.TarError, *DAMAGED) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{file}: is no sound tar file ({reason}); fetch it again"
            ) from error


@lru_cache(maxsize=GROUPS)
def _read_group(file: str, group: int, column: str) -> Sequence[Any]:
    """Read the images of a group of rows of a Parquet table."""
    with open_parquet(file) as table:
        return list(map(file_of, values_in_group(table, file, group, column)))
