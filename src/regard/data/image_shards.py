"""Images with their classes in tar files, in the layout of WebDataset, or in Parquet tables: an index is read once, and
the content of an image whenever it is needed."""

import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from regard.config.file_kinds import Kind, compression, suffix
from regard.data.arrow_tables import (
    class_names,
    open_parquet,
    parquet_rows,
    values_in_group,
)
from regard.data.files import DAMAGED, list_set_files, open_file
from regard.data.images import ImageSets, LabelledImage, file_of
from regard.data.records import parse_json
from regard.data.rows import MissingColumns
from regard.errors import InputError
from regard.images import SUFFIXES

CLASS, RECORD = ".cls", ".json"
"""The ending of the file with an image's class, and of the one with an object that has it."""
END = bytes(1024)
"""The end of a tar file."""
GROUPS = 4
"""Groups of rows of Parquet tables that stay in memory."""
Parts = dict[str, tuple[int, int]]
"""The offset and the size of the files of a sample in a tar file, by their endings."""


@dataclass(frozen=True)
class Part:
    """The place of an image in a shard: the offset and the size of its bytes in a tar file, or the group and the row in
    a Parquet table."""

    file: str
    first: int
    second: int
    column: str | None = None

    def read(self) -> bytes:
        """The bytes of the image file. Raises InputError for a shard that changed."""
        if self.column is not None:
            found = file_of(
                _group(self.file, self.first, self.column)[self.second].as_py()
            )
            return found if isinstance(found, bytes) else b""
        with open_file(self.file) as stream:
            try:
                stream.seek(self.first)
                content = stream.read(self.second)
            except DAMAGED as error:
                raise InputError(
                    f"{self.file}: cannot be read ({error}); was it changed?"
                ) from error
        if len(content) != self.second:
            raise InputError(
                f"{self.file}: ends before byte {self.first + self.second}; was it changed?"
            )
        return content


@dataclass(frozen=True)
class Sample:
    """An image of a shard with its class and its name in messages."""

    part: Part
    label: str
    place: str

    def image(self) -> LabelledImage:
        """The image, which is read when it is needed."""
        return LabelledImage(self.part.read, self.label, self.place)


@dataclass(frozen=True, kw_only=True)
class ImageShards(ImageSets):
    """Each set is a .tar or a .parquet file, or a folder or a pattern of several. In a tar file, consecutive files of
    one name up to its first dot are a sample: an image and its class, as text in a `.cls` file or under `label` in a
    `.json` file. In a Parquet table the columns `image` and `label` have the bytes and the class. Classes that are
    numbers are named by `classes`, in their order, or by the names that `datasets` writes into Parquet."""

    kind: Literal["image-shards"] = "image-shards"
    image: str = "image"
    label: str = "label"
    classes: tuple[str, ...] = ()

    recognised: ClassVar[tuple[Kind, ...]] = ("shards",)
    example_type = Sample
    convert = Sample.image
    describing: ClassVar[tuple[str, ...]] = ("classes",)
    """The keys that describe one set: a recipe's names of classes are not those of another set."""

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns of image and class of a Parquet table."""
        return {"image": self.image, "label": self.label}

    def examples(self, path: str) -> Iterator[Sample]:
        """Yield the samples of shards. Raises InputError naming the file at fault."""
        for file in shard_files(path):
            if suffix(file) == "parquet":
                yield from self._of_parquet(file)
            else:
                yield from self._of_tar(file)

    def keep_valid(self, examples: Sequence[Any]) -> Sequence[Any]:
        """Return the held out images, which stay on disk."""
        return examples

    def _of_tar(self, file: str) -> Iterator[Sample]:
        for key, parts, image in tar_samples(file):
            part = Part(file, *parts[image])
            yield Sample(part, self._label(file, key, parts), f"{file}:{key}{image}")

    def _label(self, file: str, key: str, parts: Parts) -> str:
        """The class of a sample of a tar file. Raises InputError if it has none."""
        value = read_label(file, parts, (CLASS, str.strip), self.label)
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            found = f"{file}: sample {key!r} has no class ({', '.join(parts)})"
            raise InputError(
                f"{found}; expected a {CLASS} file, or a {RECORD} file with {self.label!r}"
            )
        return self._named(value, self.classes, f"{file}: sample {key!r}")

    def _of_parquet(self, file: str) -> Iterator[Sample]:
        names: tuple[str, ...] | None = None
        for place, part, label in parquet_parts(file, self.columns):
            if names is None:
                names = self.classes or _class_names(file, self.label)
            if label is None or label == "":
                raise InputError(f"{place}: {self.label!r} is empty; expected a class")
            yield Sample(part, self._named(label, names, place), place)

    def _named(self, value: str | int, names: Sequence[str], place: str) -> str:
        """The name of a class. Raises InputError for a number without one among `names`."""
        if not names or not str(value).isdecimal():
            return str(value)
        if int(value) >= len(names):
            raise InputError(
                f"{place}: class {value}, but {len(names)} names in data.classes; add it"
            )
        return names[int(value)]


def shard_files(path: str) -> Sequence[str]:
    """The files of shards. Raises InputError for files of other kinds."""
    files = list_set_files(path)
    if not {suffix(file) for file in files} <= {"tar", "parquet"} or any(
        map(compression, files)
    ):
        raise InputError(
            f"{path}: has files other than .tar and .parquet; expected shards of images, uncompressed"
        )
    return files


def tar_samples(file: str) -> Iterator[tuple[str, Parts, str]]:
    """The name of each sample of a tar file, the offset and the size of its parts by their endings, and the ending of
    the image. Raises InputError for a sample without an image."""
    found = False
    for key, members in groupby(_members(file), lambda member: member[0]):
        parts = {ending: (offset, size) for _, ending, offset, size in members}
        images = [
            ending for ending in parts if PurePath(f"x{ending}").suffix in SUFFIXES
        ]
        if not images:
            raise InputError(
                f"{file}: sample {key!r} has no image ({', '.join(parts)}); expected one, such as .jpg"
            )
        found = True
        yield key, parts, images[0]
    if not found:
        raise InputError(f"{file}: has no images")


def read_label(
    file: str, parts: Parts, own: tuple[str, Callable[[str], Any]], key: str
) -> Any:
    """What a sample of a tar file says of its image: the text of the file with an ending of its `own`, as a function
    reads it, or else the value of a key in the JSON file; None without both."""
    ending, read = own
    if ending in parts:
        return read(Part(file, *parts[ending]).read().decode(errors="replace"))
    if RECORD not in parts:
        return None
    record, _ = parse_json(Part(file, *parts[RECORD]).read().decode(errors="replace"))
    return record.get(key) if isinstance(record, dict) else None


def parquet_parts(
    file: str, columns: Mapping[str, str | int]
) -> Iterator[tuple[str, Part, Any]]:
    """The place of each row of a Parquet table, its image, and its value in the other one of two columns, by their keys
    in a run file. Raises InputError for columns that the table lacks."""
    image, other = map(str, columns.values())
    try:
        parquet_rows(file, [image, other])
    except MissingColumns as error:
        keys = " and ".join(f"data.{key}=COLUMN" for key in columns)
        raise error.advised(f"name yours with {keys}", columns) from error
    with open_parquet(file) as table:
        row = 0
        for group in range(table.num_row_groups):
            for number, value in enumerate(
                values_in_group(table, file, group, other).to_pylist()
            ):
                row += 1
                yield f"{file}:{row}", Part(file, group, number, image), value


def _class_names(file: str, label: str) -> tuple[str, ...]:
    """The names of classes that `datasets` writes into a Parquet table."""
    with open_parquet(file) as table:
        return tuple(class_names(table.schema_arrow).get(label, ()))


def _members(file: str) -> Iterator[tuple[str, str, int, int]]:
    """The name up to its first dot, the ending, the offset and the size of each file in a tar file. Raises InputError
    for one that is damaged or cut off."""
    with open_file(file) as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - len(END)))
        if (
            stream.read() != END
        ):  # tarfile reads what is there of a file that is cut off
            raise InputError(
                f"{file}: is no sound tar file, or is cut off; fetch it again"
            )
        stream.seek(0)
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                headers: Any = archive
                for member in archive:
                    headers.members.clear()  # else it keeps the headers of all
                    folder, name = (
                        PurePath(member.name).parent,
                        PurePath(member.name).name,
                    )
                    if not member.isfile() or name.startswith("."):
                        continue
                    if member.offset_data + member.size > size:
                        raise InputError(
                            f"{file}: is cut off in {member.name}; fetch it again"
                        )
                    stem, dot, ending = name.partition(".")
                    yield (
                        str(folder / stem),
                        f"{dot}{ending}".lower(),
                        member.offset_data,
                        member.size,
                    )
        except (tarfile.TarError, *DAMAGED) as error:
            raise InputError(
                f"{file}: is no sound tar file ({' '.join(str(error).split())}); fetch it again"
            ) from error


@lru_cache(maxsize=GROUPS)
def _group(file: str, group: int, column: str) -> Any:
    """The images of a group of rows of a Parquet table."""
    with open_parquet(file) as table:
        return values_in_group(table, file, group, column)
