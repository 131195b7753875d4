"""Files as streams of bytes and numbered lines, local or remote, within limits."""

import codecs
import importlib
import io
import logging
import lzma
import math
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.config.file_kinds import compression, suffix
from regard.config.yaml_tree import format_setting
from regard.errors import InputError
from regard.extras import how_to_install

URL = re.compile(r"[a-z][a-z0-9+.-]*://")
TRIES, PAUSE = 5, 0.5
"""How often a store is tried, and the first pause in seconds, which doubles."""
SCHEMES = ("http", "https", "s3", "gs", "gcs", "az", "abfs", "hf", "memory")
"""Kinds of stores that a URL may name.

Other schemes of fsspec read local files (`file`), chain stores or render templates that
execute code (`reference`, before fsspec 2026.6).
"""
BLOCK = 1 << 20
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""The errors of reading a file that is cut off, damaged or unreadable."""
WILDCARDS = frozenset("*?[")
WINDOWS_FILES = frozenset({"thumbs.db", "desktop.ini"})
DECOMPRESSORS = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
"""The module that opens each kind of compressed files, except .zst."""
SUBTITLES = re.compile(
    r"(\d+:)?\d\d:\d\d[,.]\d{3} --> |WEBVTT\b|\[Script Info\]|\{\d+\}\{\d+\}"
)
"""The beginning of one of the first lines of subtitles."""
FIRST_LINES = 10
MOST_BLANK = 1 << 16
"""The empty lines that are skipped before the first one is yielded."""
T = TypeVar("T")
FilePath = str | Path
log = logging.getLogger("regard")


def is_remote(path: object) -> bool:
    """Return whether a path is a URL, such as s3://bucket/train.txt."""
    return URL.match(str(path)) is not None


def _find_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    if "::" in url or url.partition("://")[0] not in SCHEMES:
        raise InputError(
            f"{url}: this kind of URL is not supported. Use a local path or one URL of "
            f"{', '.join(SCHEMES)}."
        )
    try:
        return importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: needs a package that is not installed ({error}): "
            f"{how_to_install('fsspec')}"
        ) from error


def _ask_store(url: str, action: Callable[[Any, str], T]) -> T:
    """Return what an action gives for the file system and the path of a URL.

    It is tried again while the store fails.

    Raises:
        InputError: The file isn't there, or the store fails too often.
    """
    number = 0
    while True:
        try:
            return action(*_find_store(url))
        except InputError:
            raise
        except FileNotFoundError as error:
            raise InputError(f"{url}: no such file; check the URL") from error
        except Exception as error:  # each store has its own errors
            number += 1
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            if number == TRIES or isinstance(error, PermissionError):
                raise InputError(
                    f"{url}: cannot be read ({reason}), tried {number} times; check "
                    "your access or try again later"
                ) from error
            log.warning("%s: cannot be read (%s); trying again", url, reason)
            time.sleep(PAUSE * 2 ** (number - 1))


class _RemoteFile(io.RawIOBase):
    """A remote file that continues from the same offset when its store fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.offset = 0
        self.file: Any = None
        _ask_store(url, self._reopen)

    def _reopen(self, system: Any, path: str) -> None:
        self.file = system.open(path, "rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self.offset}
        origin = origins[whence] if whence in origins else size_of_file(self.url)
        self.offset = origin + offset
        return self.offset

    def readinto(self, buffer: Any) -> int:
        def read(system: Any, path: str) -> bytes:
            try:
                self.file.seek(self.offset)
                return self.file.read(len(buffer))
            except Exception:
                self._reopen(system, path)
                raise

        content = _ask_store(self.url, read)
        buffer[: len(content)] = content
        self.offset += len(content)
        return len(content)

    def close(self) -> None:
        self.file.close()
        super().close()


class _DecompressedStream(io.BufferedReader):
    """A decompressed stream that closes the compressed one."""

    def __init__(self, raw: Any, source: Any) -> None:
        super().__init__(raw)
        self.source = source

    def close(self) -> None:
        super().close()
        self.source.close()


def open_file(path: FilePath) -> io.BufferedReader:
    """Open a file for reading, decompressed if its name says that it is compressed.

    Raises:
        InputError: The file is missing, unreadable or a directory.
    """
    name = str(path)
    try:
        if is_remote(name):
            stream: Any = io.BufferedReader(_RemoteFile(name), BLOCK)
        else:
            stream = Path(name).open("rb")  # noqa: SIM115 -- the caller closes it
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(
            f"{path}: is a directory; expected a file{example_in(name)}"
        ) from error
    except OSError as error:
        raise read_error(path, 0, error) from error
    if module := DECOMPRESSORS.get(compression(name)):
        return _DecompressedStream(importlib.import_module(module).open(stream), stream)
    if compression(name) == ".zst":
        pa = importlib.import_module("pyarrow")
        raw = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
        return _DecompressedStream(raw, stream)
    return stream


def read_error(path: FilePath, offset: int, error: Exception) -> InputError:
    """Return the error of reading the content after an offset."""
    reason = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    if compression(path) and not isinstance(error, PermissionError):
        return InputError(
            f"{path}: is cut off or not a sound {compression(path)} file near byte "
            f"{offset} of its content ({reason}); fetch it again"
        )
    return InputError(f"{path}: cannot be read ({reason})")


def is_hidden(path: Path) -> bool:
    """Return whether a file is hidden, or one that Windows keeps in a folder."""
    return path.name.startswith(".") or path.name.lower() in WINDOWS_FILES


def list_files(path: str) -> list[str]:
    """List the files of a path, sorted: of a folder, of a pattern, or the path itself.

    Names in a folder that begin with a dot or an underscore are left out.

    Raises:
        InputError: No file matches.
    """
    if os.path.isdir(path):
        files = [
            str(file)
            for file in Path(path).iterdir()
            if file.is_file() and not is_hidden(file) and file.name[0] != "_"
        ]
    elif not WILDCARDS & set(path) or os.path.exists(path):
        return [path]
    elif is_remote(path):
        files = _ask_store(
            path,
            lambda system, path: [*map(system.unstrip_protocol, system.glob(path))],
        )
    else:
        files = [file for file in glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        raise InputError(f"{path}: no file fits; name a file, a folder or a pattern")
    return sorted(files)


def size_of_file(path: FilePath) -> int:
    """Return the bytes of a file as it is stored. Raises OSError and InputError."""
    if is_remote(path):
        size = _ask_store(str(path), lambda system, path: system.size(path))
        return int(size or 0)
    return os.stat(path).st_size


def stat_stamp(path: str) -> list[Any]:
    """Return the name, size and time or tag of a file, by which changes are noticed.

    Raises:
        InputError: The file isn't there.
    """
    if is_remote(path):
        info = _ask_store(path, lambda system, path: system.info(path))
        names = ("ETag", "etag", "mtime", "LastModified", "created")
        tags = [str(info[name]) for name in names if info.get(name)]
        return [path, info.get("size"), *tags]
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); check the path"
        ) from error
    return [str(path), status.st_size, status.st_mtime_ns]


def example_in(folder: str) -> str:
    """Name a file of a folder for a message, one to train on if there is one."""
    entries = sorted(Path(folder).iterdir(), key=lambda path: "train" not in path.name)
    files = (path for path in entries if path.is_file() and not is_hidden(path))
    first = next(files, None)
    return f", such as {first}" if first else ""


def folders_in(folder: Path) -> list[Path]:
    """List the folders in a folder, sorted."""
    paths = sorted(folder.iterdir())
    return [path for path in paths if path.is_dir() and not is_hidden(path)]


SETS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
    "eval": "test",
}
"""The set that a folder or a file of this name holds."""
NAME_WORD = re.compile(r"[^\W\d_]+")


def check_one_set(folder: FilePath, files: Sequence[str]) -> None:
    """Raise InputError for a folder with files of several sets, such as test.csv."""
    sets: dict[str, str] = {}
    for file in files if os.path.isdir(folder) else ():
        name = Path(file.lower().removesuffix(compression(file))).stem
        words = NAME_WORD.findall(name) or [""]
        if key := SETS.get(words[0]) or SETS.get(words[-1]):
            sets.setdefault(key, file)
    if len(sets) > 1:
        raise InputError(
            f"{folder}: has files of several sets; name each: {_format_sets(sets)}"
        )


def list_set_files(path: str) -> list[str]:
    """List the files of one set. Raises InputError for files of several sets."""
    files = list_files(path)
    check_one_set(path, files)
    return files


def find_sets(path: str, least: int = 2) -> dict[str, str]:
    """Return the folders of sets in a folder by their keys.

    The result is empty if there are other folders, or fewer than `least`.
    """
    folders = folders_in(Path(path))
    sets = {SETS.get(folder.name.lower(), ""): str(folder) for folder in folders}
    has_others = "" in sets or len(sets) < len(folders)
    return {} if has_others or len(sets) < least else sets


def check_classes(path: str) -> None:
    """Raise InputError for folders of sets, one level above the folders of classes."""
    if sets := find_sets(path):
        names = ", ".join(Path(folder).name for folder in sets.values())
        raise InputError(
            f"{path}: its folders are the sets {names} and no classes; name "
            f"each: {_format_sets(sets)}"
        )


def _format_sets(paths: dict[str, str]) -> str:
    keys = sorted(paths, key=("train", "valid", "test").index)
    return " ".join(format_setting(f"data.{key}", paths[key]) for key in keys)


FREE_LINES, LINES_PER_BYTE = 1 << 20, 4
"""Lines that every compressed file may have, and for each byte of a larger one."""
FREE_BYTES = 1 << 22
"""Bytes of content that every compressed file may have."""


def _variable(name: str, default: int) -> Any:
    """Return a field whose default is a variable of the environment."""

    def read() -> int:
        text = os.environ.get(name, str(default))
        if not (text.isascii() and text.isdigit() and int(text)):
            raise InputError(
                f"{name} is {text!r}; expected a whole number from 1, such as {default}"
            )
        return int(text)

    return field(default_factory=read)


@dataclass(frozen=True)
class FileLimits:
    """Limits of the content of a file, by default from the environment.

    Attributes:
        max_line: Characters in a line.
        max_decompressed: Bytes of content of a compressed file or a stream.
        max_lines: Lines of such a file.
        max_ratio: Bytes of content for each byte of the file.
    """

    max_line: int = _variable("REGARD_MAX_LINE", 1 << 20)
    max_decompressed: int = _variable("REGARD_MAX_DECOMPRESSED", 1 << 30)
    max_lines: int = _variable("REGARD_MAX_LINES", 10_000_000)
    max_ratio: int = _variable("REGARD_MAX_RATIO", 100)

    def of(self, path: FilePath) -> "Bounds":
        """Return the bounds of a file; a plain file may have any size.

        Raises:
            OSError: The file isn't there.
            InputError: A URL does not answer.
        """
        largest = Bounds(self.max_decompressed, self.max_lines)
        if not is_remote(path) and not stat.S_ISREG(os.stat(path).st_mode):
            return largest
        kind = suffix(path)
        if not compression(path) and kind not in ("npz", "parquet", "arrow"):
            return Bounds(math.inf, math.inf)
        size = size_of_file(path)
        content = max(FREE_BYTES, self.max_ratio * size)
        lines = max(FREE_LINES, LINES_PER_BYTE * size)
        if "REGARD_MAX_LINES" in os.environ:
            lines = self.max_lines
        if kind in ("parquet", "arrow"):  # which are read a part at a time
            return Bounds(content, lines)
        return Bounds(min(content, largest.content), min(lines, largest.lines))


@dataclass(frozen=True)
class Bounds:
    """The maximum of bytes and lines of a file."""

    content: int | float
    lines: int | float

    def check(self, location: str, content: int, lines: int = 0) -> None:
        """Raise InputError for more content or lines."""
        if content <= self.content and lines <= self.lines:
            return
        excess = f"expands to more than {self.content:,} bytes"
        names = "REGARD_MAX_RATIO and REGARD_MAX_DECOMPRESSED"
        if lines > self.lines:
            excess = f"has more than {self.lines:,} lines"
            names = "REGARD_MAX_LINES"
        raise InputError(f"{location}: {excess}; raise {names} or unpack it")


DEFAULT_LIMITS = FileLimits()
_CONVERT = "text (byte order mark at byte offset 0); convert it to UTF-8"
WORKBOOK = "a workbook of a spreadsheet; save its sheet as 'CSV UTF-8' in Excel"
_FOREIGN_MARKS = {  # the mark of little-endian UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: f"UTF-32 {_CONVERT}",
    codecs.BOM_UTF32_BE: f"UTF-32 {_CONVERT}",
    codecs.BOM_UTF16_LE: f"UTF-16 {_CONVERT}",
    codecs.BOM_UTF16_BE: f"UTF-16 {_CONVERT}",
    b"\x1f\x8b": "gzip data, but the name does not end in .gz; rename it",
    b"\x28\xb5\x2f\xfd": "zstd data, but the name does not end in .zst; rename it",
    b"\xfd7zXZ\0": "xz data, but the name does not end in .xz; rename it",
    b"BZh9": "bzip2 data, but the name does not end in .bz2; rename it",
    b"PK\x03\x04": f"a zip file; unpack it. Or {WORKBOOK}",
    b"\xd0\xcf\x11\xe0": WORKBOOK,
}
"""The first bytes of files that are not text in UTF-8."""


class Position(NamedTuple):
    """A position between two lines: the lines before it, and the bytes."""

    lines: int = 0
    offset: int = 0


BEGINNING = Position()


class Line(NamedTuple):
    """A line without its end: its number from 1, its offset in bytes, and its text."""

    number: int
    offset: int
    text: str


def iterate_lines(
    path: FilePath, limits: FileLimits = DEFAULT_LIMITS, start: Position = BEGINNING
) -> Generator[Line, None, None]:
    """Yield the lines of a text file from a position on; `close` closes the file.

    Raises:
        InputError: The file is missing, unreadable, damaged, empty, blank, not UTF-8 or
            larger than its limits.
    """
    with closing(_decode_lines(path, limits, start)) as lines:
        if not start.lines:
            blank = []
            for line in lines:
                blank.append(line)
                if line.text.strip() or len(blank) == MOST_BLANK:
                    break
            else:
                raise InputError(
                    f"{path}: {len(blank)} lines, all of them blank; expected text"
                    if blank
                    else f"{path}: the file is empty; expected lines of UTF-8 text"
                )
            yield from blank
        yield from lines


def read_lines(path: FilePath, limits: FileLimits = DEFAULT_LIMITS) -> list[str]:
    """Read all lines of a file. Raises InputError as `iterate_lines`."""
    return [line.text for line in iterate_lines(path, limits)]


def _decode_lines(
    path: FilePath, limits: FileLimits, start: Position
) -> Generator[Line, None, None]:
    # A character takes at most four bytes, and two may end the line.
    max_bytes = 4 * limits.max_line + 3
    number, offset = start
    with open_file(path) as stream:
        try:
            bounds = limits.of(path)
            position = stream.seek(offset) if offset and stream.seekable() else 0
            for first in range(position, offset, BLOCK):
                stream.read(min(BLOCK, offset - first))
            while raw := stream.readline(max_bytes):
                number += 1
                location = f"{path}:{number}"
                bounds.check(location, offset + len(raw), number)
                is_long = len(raw) == max_bytes
                is_first = number == 1
                text = "" if is_long else decode_line(raw, location, offset, is_first)
                if is_long or len(text) > limits.max_line:
                    raise InputError(
                        f"{location}: line longer than {limits.max_line} characters "
                        "(REGARD_MAX_LINE); split it"
                    )
                if number <= FIRST_LINES and SUBTITLES.match(text):
                    raise InputError(
                        f"{location}: subtitles with times; regard reads plain text. Save "
                        "the subtitles as text without numbers and times."
                    )
                if not is_first or raw != codecs.BOM_UTF8:
                    yield Line(number, offset, text)
                offset += len(raw)
        except DAMAGED as error:
            raise read_error(path, offset, error) from error


def decode_line(raw: bytes, location: str, offset: int, is_first: bool) -> str:
    """Return the text of a line without its end and without a byte order mark."""
    if is_first:
        for mark, message in _FOREIGN_MARKS.items():
            if raw.startswith(mark):
                raise InputError(f"{location}: {message}")
    if b"\0" in raw:
        raise InputError(
            f"{location}: NUL byte at byte offset {offset + raw.index(0)}; expected "
            "UTF-8 text (convert UTF-16)"
        )
    if raw.endswith(b"\n"):
        raw = raw[:-1].removesuffix(b"\r")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{location}: byte 0x{raw[error.start]:02x} at byte offset "
            f"{offset + error.start} is not UTF-8 (Latin-1, Excel's CSV?); convert it "
            "by `iconv -f cp1252 -t utf-8 IN > OUT`, or save it as 'CSV UTF-8' in Excel"
        ) from error
    return text.removeprefix("\ufeff") if is_first else text
