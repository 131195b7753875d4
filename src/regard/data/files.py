"""Files as streams of bytes and numbered lines, local or remote, within limits."""

import codecs
import gzip
import importlib
import io
import logging
import math
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from itertools import chain, takewhile
from os.path import basename
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from regard.config.file_kinds import SPREADSHEETS, compression, suffix
from regard.config.yaml_tree import format_setting
from regard.errors import InputError
from regard.extras import how_to_install

URL = re.compile(r"[a-z][a-z0-9+.-]*://")
TRIES, PAUSE = 5, 0.5
"""How often a store is tried, and the seconds before the second time; the pause doubles each time."""
SCHEMES = ("http", "https", "s3", "gs", "gcs", "az", "abfs", "hf", "memory")
"""Kinds of stores that a URL may name. Other schemes of fsspec read local files (`file`), chain stores or render
templates that execute code (`reference`, before fsspec 2026.6)."""
BLOCK = 1 << 20
T = TypeVar("T")
log = logging.getLogger("regard")


def is_remote(path: object) -> bool:
    """Whether a path is a URL, such as s3://bucket/train.txt."""
    return URL.match(str(path)) is not None


def remote_size(url: str) -> int:
    """The bytes of a file. Raises InputError as `open_remote`."""
    return int(_in_store(url, lambda system, path: system.size(path)) or 0)


def remote_stamp(url: str) -> list[Any]:
    """What changes when a file does: its size, and the tag or the time that the store has. Raises InputError as
    `open_remote`."""
    info = _in_store(url, lambda system, path: system.info(path))
    tags = [
        str(info[name])
        for name in ("ETag", "etag", "mtime", "LastModified", "created")
        if info.get(name)
    ]
    return [url, info.get("size"), *tags]


def remote_names(pattern: str) -> list[str]:
    """The URLs that fit a pattern with * or ?. Raises InputError as `open_remote`."""
    return sorted(
        _in_store(
            pattern,
            lambda system, path: [
                system.unstrip_protocol(name) for name in system.glob(path)
            ],
        )
    )


def open_remote(url: str) -> io.BufferedReader:
    """The content of a file. Where the store fails, it is read on from the same place, `TRIES` times at most without a
    byte. Raises InputError for a file that is not there, a store that cannot be reached, and an unknown kind of URL."""
    return io.BufferedReader(_Remote(url), BLOCK)


class _Remote(io.RawIOBase):
    """A remote file whose reads are tried again."""

    def __init__(self, url: str) -> None:
        self.url, self.place, self.file = url, 0, _retry(url, lambda: _open(url))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = remote_size(self.url) if whence == io.SEEK_END else 0
        self.place = offset + (self.place if whence == io.SEEK_CUR else size)
        return self.place

    def readinto(self, buffer: Any) -> int:
        found = _retry(self.url, lambda: self._read(len(buffer)))
        buffer[: len(found)] = found
        self.place += len(found)
        return len(found)

    def _read(self, count: int) -> bytes:
        try:
            self.file.seek(self.place)
            return self.file.read(count)
        except Exception:
            self.file = _open(self.url)  # what failed may be of no use any more
            raise

    def close(self) -> None:
        self.file.close()
        super().close()


def _open(url: str) -> Any:
    system, path = _system(url)
    return system.open(path, "rb")


def _system(url: str) -> tuple[Any, str]:
    if "::" in url:
        raise InputError(
            f"{url}: chained URLs are not allowed. Write a single URL without '::'."
        )
    if url.partition("://")[0] not in SCHEMES:
        raise InputError(
            f"{url}: this kind of URL is not supported. Use a local path or one of {', '.join(SCHEMES)}."
        )
    try:
        return importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise InputError(
            f"{url}: needs a package that is not installed ({error}): {how_to_install('fsspec')}"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{url}: no file system of this kind ({' '.join(str(error).split())})"
        ) from error


def _in_store(url: str, action: Callable[[Any, str], T]) -> T:
    return _retry(url, lambda: action(*_system(url)))


def _retry(url: str, action: Callable[[], T]) -> T:
    for number in range(TRIES):
        try:
            return action()
        except InputError:
            raise
        except FileNotFoundError as error:
            raise InputError(f"{url}: no such file; check the URL") from error
        except PermissionError as error:
            raise InputError(
                f"{url}: access denied; check the credentials of the store"
            ) from error
        except Exception as error:  # each store has errors of its own
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            if number + 1 == TRIES:
                raise InputError(
                    f"{url}: cannot be read ({reason}), tried {TRIES} times; try again later"
                ) from error
            log.warning("%s: cannot be read (%s); trying again", url, reason)
            time.sleep(PAUSE * 2**number)
    raise AssertionError("unreachable")


MAGIC = frozenset("*?[")
WINDOWS = frozenset({"thumbs.db", "desktop.ini"})
CHUNK = 1 << 20


def open_file(path: Path | str) -> io.BufferedReader:
    """The content of a file: of a .gz or .zst file what is compressed in it. Raises InputError for a file that is
    missing, unreadable or a directory."""
    name = str(path)
    if is_remote(name):
        return _decompress(open_remote(name), name)
    try:
        if Path(name).is_dir():
            raise InputError(f"{path}: is a directory; expected a text file")
        return _decompress(Path(name).open("rb"), name)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})"
        ) from error


class _DecompressedStream(io.BufferedReader):
    """A stream of what another stream has compressed, which it closes."""

    def __init__(self, raw: Any, source: Any) -> None:
        super().__init__(raw)  # its lines are split in C
        self.source = source

    def close(self) -> None:
        super().close()
        self.source.close()


def _decompress(stream: Any, name: str) -> io.BufferedReader:
    kind = compression(name)
    if kind == ".gz":
        return _DecompressedStream(gzip.GzipFile(fileobj=stream), stream)
    if kind == ".zst":
        pa = importlib.import_module("pyarrow")
        return _DecompressedStream(
            pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd"), stream
        )
    return stream


def skip(stream: io.BufferedReader, count: int) -> None:
    """Go on after `count` bytes from the beginning. Raises what reading raises."""
    if stream.seekable():
        stream.seek(count)
        return
    while count and (found := stream.read(min(count, CHUNK))):
        count -= len(found)


def read_error(path: Path | str, offset: int, error: Exception) -> InputError:
    """The line about an error of reading the content behind `offset`: the file is cut off, damaged or unreadable."""
    if isinstance(error, EOFError):
        return InputError(
            f"{path}: the gzip file is cut off near byte {offset} of its content; fetch it again"
        )
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return InputError(
            f"{path}: not a sound gzip file ({error}); fetch it again or rename it"
        )
    if compression(path) == ".zst":
        reason = " ".join(str(error).split())
        return InputError(
            f"{path}: not a sound zstd file near byte {offset} of its content ({reason}); fetch it again or rename it"
        )
    return InputError(
        f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})"
    )


DAMAGED = (EOFError, zlib.error, OSError)
"""What reading raises of a file that is cut off, damaged or unreadable."""


def is_hidden(path: Path) -> bool:
    """Whether a name begins with a dot, or is of a file that Windows keeps in a folder."""
    return path.name.startswith(".") or path.name.lower() in WINDOWS


def list_files(path: str) -> list[str]:
    """The files that a path names, sorted: those in a folder, those that fit a pattern with *, ? or **, or the path
    itself. Hidden names and those that begin with an underscore are left out of folders. Raises InputError for none."""
    if is_remote(path):
        found = remote_names(path) if MAGIC & set(path) else [path]
    elif os.path.isdir(path):
        found = sorted(
            str(item)
            for item in Path(path).iterdir()
            if item.is_file() and not is_hidden(item) and item.name[0] != "_"
        )
    elif MAGIC & set(path) and not os.path.exists(path):
        found = sorted(
            item for item in glob(path, recursive=True) if os.path.isfile(item)
        )
    else:
        return [path]
    if not found and os.path.isdir(path):
        raise InputError(
            f"{path}: is a folder without files of its own; name a file, or the folder that has them"
        )
    if not found:
        raise InputError(f"{path}: no file fits; check the path")
    return found


def size_of_file(path: str) -> int:
    """The bytes of a file as it is stored. Raises OSError and InputError."""
    return remote_size(path) if is_remote(path) else os.stat(path).st_size


def stat_stamp(path: str) -> list[Any]:
    """A file's name, size and time of change, by which a change is noticed without reading it. Raises InputError for a
    file that is not there."""
    if is_remote(path):
        return remote_stamp(path)
    try:
        found = os.stat(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); check the path"
        ) from error
    return [str(path), found.st_size, found.st_mtime_ns]


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, sorted."""
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not is_hidden(path)
    )


FREE_LINES, LINES_PER_BYTE = 1 << 20, 4
"""Lines that every compressed file may have, and for each byte of a larger one."""
FREE = 1 << 22
"""Bytes of content to which every compressed file may expand, whatever its own size."""


def _setting(name: str, default: int) -> int:
    """The whole number in the environment's variable `name`. Raises InputError for anything else."""
    text = os.environ.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and int(text)):
        raise InputError(
            f"{name} is {text!r}; expected a whole number from 1, such as {default}"
        )
    return int(text)


@dataclass(frozen=True)
class Limits:
    """Limits of a file, each from its variable of the environment by default: characters in a line (REGARD_MAX_LINE);
    and of a compressed file or a stream, whose end nobody knows before: bytes of content (REGARD_MAX_DECOMPRESSED),
    lines (REGARD_MAX_LINES) and bytes of content for each byte of the file (REGARD_MAX_RATIO), from 4 MiB on."""

    max_line: int = field(default_factory=lambda: _setting("REGARD_MAX_LINE", 1 << 20))
    max_decompressed: int = field(
        default_factory=lambda: _setting("REGARD_MAX_DECOMPRESSED", 1 << 30)
    )
    max_lines: int = field(
        default_factory=lambda: _setting("REGARD_MAX_LINES", 10_000_000)
    )
    max_ratio: int = field(default_factory=lambda: _setting("REGARD_MAX_RATIO", 100))

    def of(self, path: Path | str) -> "Bounds":
        """Return the bounds of a file: none for a plain file, which is as large as it is.

        Raises:
            OSError: The file is not there.
            InputError: A URL cannot be read.
        """
        name = str(path)
        if not is_remote(name) and not stat.S_ISREG(os.stat(name).st_mode):
            return Bounds(self.max_decompressed, self.max_lines, self)
        if not compression(name) and not name.lower().endswith(".npz"):
            return Bounds(math.inf, math.inf, self)
        return self.of_packed(name)

    def of_packed(self, path: Path | str, *, is_streamed: bool = False) -> "Bounds":
        """Return the bounds of a file whose content is compressed.

        The lines of a small file are few, unless REGARD_MAX_LINES is set. A file of which
        only a batch is in memory at once may be as large as its compressed size allows.
        """
        size = size_of_file(str(path))
        content = max(FREE, self.max_ratio * size)
        lines = max(FREE_LINES, LINES_PER_BYTE * size)
        if "REGARD_MAX_LINES" in os.environ:
            lines = self.max_lines
        if is_streamed:
            return Bounds(content, lines, self)
        return Bounds(
            min(content, self.max_decompressed), min(lines, self.max_lines), self
        )


@dataclass(frozen=True)
class Bounds:
    """The bytes of content and the lines that are read of one file."""

    content: int | float
    lines: int | float
    limits: Limits

    def check(self, place: str, content: int, lines: int = 0) -> None:
        """Raise InputError, which names the variable to set, for more content or lines than are read."""
        if lines > self.lines:
            what, name = f"has more than {self.lines:,} lines", "REGARD_MAX_LINES"
        elif content > self.content:
            short = self.content < self.limits.max_decompressed
            name = "REGARD_MAX_RATIO" if short else "REGARD_MAX_DECOMPRESSED"
            what = f"expands to more than {self.content:,} bytes" + (
                f" ({self.limits.max_ratio} for each of the file)" if short else ""
            )
        else:
            return
        raise InputError(
            f"{place}: {what}; raise {name} or unpack it if it is meant to be so large"
        )


SETS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
}
SETS |= {"test": "test", "testing": "test", "eval": "test"}
"""The set that a folder or a file of this name holds."""
PARTS = re.compile(r"[^\W\d_]+")
"""The words of a file's name."""


def list_set_files(path: str) -> list[str]:
    """The files of `list_files` for a path that names one set. Raises InputError as it and `check_one_set` do."""
    found = list_files(path)
    check_one_set({path: found})
    return found


def check_one_set(files: Mapping[str, Sequence[str]]) -> None:
    """Raises InputError for folders, each with its `files`, whose names say that they are those of several sets, as
    `train.csv` and `test.csv`; `train-00000.csv` and `train-00001.csv` are of one. A pattern names what it names."""
    if not all(map(os.path.isdir, files)):
        return
    found = [_group_by_set(file) for file in files.values()]
    named = {
        key: [_pattern_of(item[key]) for item in found]
        for key in found[0]
        if all(key in item for item in found)
    }
    if len(named) > 1:
        names = ", ".join(basename(paths[0]) for paths in named.values())
        options = " ".join(
            format_setting(f"data.{key}", paths if len(paths) > 1 else paths[0])
            for key, paths in named.items()
        )
        raise InputError(
            f"{' and '.join(files)}: has files of several sets ({names}), expected those of one; name each: {options}"
        )


def _group_by_set(files: Iterable[str]) -> dict[str, list[str]]:
    """The files of each set, by the first or else the last word of their names without the ending."""
    found: dict[str, list[str]] = {key: [] for key in SETS.values()}
    for file in files:
        name = basename(file).lower()
        words = PARTS.findall(os.path.splitext(name.removesuffix(compression(name)))[0])
        if key := next(
            (SETS[word] for word in (*words[:1], *words[-1:]) if word in SETS), None
        ):
            found[key].append(file)
    return {key: item for key, item in found.items() if item}


def _pattern_of(files: Sequence[str]) -> str:
    """The path of one file, or a pattern of several."""
    if len(files) == 1:
        return files[0]
    start = _common_prefix(files)
    end = _common_prefix([file[len(start) :][::-1] for file in files])[::-1]
    return f"{start}*{end}"


def _common_prefix(names: Sequence[str]) -> str:
    """The characters with which all names begin."""
    return "".join(
        item[0]
        for item in takewhile(
            lambda item: len(set(item)) == 1, zip(*names, strict=False)
        )
    )


def check_classes(path: str, names: Sequence[str]) -> None:
    """Raises InputError for folders named after sets, which are one level above the folders of classes."""
    found = {SETS[name.lower()]: name for name in names if name.lower() in SETS}
    if len(names) > 1 and len(found) == len(names):
        options = " ".join(
            format_setting(f"data.{key}", str(Path(path) / name))
            for key, name in found.items()
        )
        raise InputError(
            f"{path}: its folders are the sets {', '.join(names)} and no classes; name each: {options}"
        )


_WIDE_MARKS = (  # UTF-32 first: its little-endian mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
WORKBOOK = "a workbook of a spreadsheet; save its sheet as 'CSV UTF-8' in Excel"
_WORKBOOK_MARKS = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_COMPRESSED_MARKS = (
    (b"\x1f\x8b", "gzip", ".gz"),
    (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
)


DEFAULT_LIMITS = Limits()


class Position(NamedTuple):
    """A place between two lines of a file: the number of lines before it, and of bytes of the file's content."""

    lines: int = 0
    offset: int = 0


BEGINNING = Position()


class Line(NamedTuple):
    """A line without its end: its number from 1, and the offset of its first byte in the file's content."""

    number: int
    offset: int
    text: str


def iterate_numbered_lines(
    path: str | Path, limits: Limits = DEFAULT_LIMITS
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end), with one line in memory at a time.

    Raises InputError if the file is missing, a directory, unreadable, empty or not UTF-8 (with the byte offset after
    decompression); if it has NUL bytes or a line longer than `limits` allow; or if it is a gzip file that is cut off
    or damaged, or larger than its bounds (`Limits.of`)."""
    return (
        (number, text) for number, _, text in _decode_lines(path, limits, BEGINNING)
    )


def iterate_lines(
    path: str | Path, limits: Limits = DEFAULT_LIMITS, start: Position = BEGINNING
) -> Generator[Line, None, None]:
    """Yield the lines of a file from a position on; `close` closes the file.

    Raises:
        InputError: As `iterate_numbered_lines`.
    """
    return (Line(*decoded_line) for decoded_line in _decode_lines(path, limits, start))


def _decode_lines(
    path: str | Path, limits: Limits, start: Position
) -> Iterator[tuple[int, int, str]]:
    number = 0
    with open_file(path) as stream:
        for number, offset, raw in _raw_lines(stream, path, limits, start):
            line = _decode(raw, f"{path}:{number}", offset)
            if len(line) > limits.max_line:
                raise _too_long(path, number, limits)
            yield number, offset, line
    if number == 0 and not start.lines:
        raise InputError(f"{path}: the file is empty; expected lines of UTF-8 text")


def read_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """All lines of a file. Raises InputError as `iterate_numbered_lines` does, and if every line is blank."""
    lines = [line for _, line in iterate_numbered_lines(path, limits)]
    if not any(line.strip() for line in lines):
        raise _all_blank(path, len(lines))
    return lines


def require_text(path: str | Path, lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a file. Raises InputError if every one is blank."""
    blank: list[Line] = []
    found = iter(lines)
    for line in found:
        blank.append(line)
        if line.text.strip():
            return chain(blank, found)
    raise _all_blank(path, len(blank))


def count_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> int:
    """The number of lines of a file, one of them in memory at a time. Raises InputError as `read_lines` does."""
    count, blank = 0, True
    for _, line in iterate_numbered_lines(path, limits):
        count += 1
        blank = blank and not line.strip()
    if blank:
        raise _all_blank(path, count)
    return count


def _all_blank(path: str | Path, number: int) -> InputError:
    return InputError(f"{path}: {number} lines, all of them blank; expected text")


def _raw_lines(
    stream: io.BufferedReader, path: Path | str, limits: Limits, start: Position
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (line number, byte offset of the line, bytes without the line's end or a byte order mark)."""
    most = (
        4 * limits.max_line + 3
    )  # no character takes more than four bytes, and two may end the line
    bounds = limits.of(path)
    number, offset = start
    if offset:
        _skip(stream, path, offset)
    while raw := _readline(stream, path, most, offset):
        number += 1
        mark = _skip_mark(raw, path) if number == 1 else 0
        if b"\0" in raw:
            raise InputError(_nul_message(raw, f"{path}:{number}", offset))
        if len(raw) >= most:
            raise _too_long(path, number, limits)
        bounds.check(f"{path}:{number}", offset + len(raw), number)
        content = raw[mark:].removesuffix(b"\n")
        if len(raw) > mark:
            yield (
                number,
                offset + mark,
                content.removesuffix(b"\r") if raw.endswith(b"\n") else content,
            )
        offset += len(raw)


def _readline(
    stream: io.BufferedReader, path: Path | str, most: int, offset: int
) -> bytes:
    try:
        return stream.readline(most)
    except DAMAGED as error:
        raise read_error(path, offset, error) from error


def _skip(stream: io.BufferedReader, path: Path | str, offset: int) -> None:
    try:
        skip(stream, offset)
    except DAMAGED as error:
        raise read_error(path, offset, error) from error


def _skip_mark(raw: bytes, path: Path | str) -> int:
    """The length of a UTF-8 byte order mark at the start of the file. Raises InputError for other encodings."""
    for mark, name in _WIDE_MARKS:
        if raw.startswith(mark):
            raise InputError(
                f"{path}: {name} text (byte order mark at byte offset 0); convert it to UTF-8"
            )
    for mark, name, ending in _COMPRESSED_MARKS:
        if raw.startswith(mark):
            raise InputError(
                f"{path}: {name} data at byte offset 0, but the name does not end in {ending}; rename it"
            )
    if raw.startswith(_WORKBOOK_MARKS) and suffix(path) in SPREADSHEETS:
        raise InputError(f"{path}: {WORKBOOK}")
    return len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0


def _nul_message(raw: bytes, place: str, offset: int) -> str:
    message = f"{place}: NUL byte at byte offset {offset + raw.index(0)}"
    every_other = max(raw[0::2].count(0), raw[1::2].count(0)) / (len(raw) / 2)
    if (
        every_other > 0.7
    ):  # Western text in UTF-16; other scripts have no zero bytes and fail as invalid UTF-8
        return f"{message}: this looks like UTF-16 without a byte order mark; convert it to UTF-8"
    return f"{message}; expected UTF-8 text"


def _decode(raw: bytes, place: str, offset: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = offset + error.start
        raise InputError(
            f"{place}: byte 0x{raw[error.start]:02x} at byte offset {at} is not UTF-8 (Latin-1, Excel's CSV?); convert "
            "it by `iconv -f cp1252 -t utf-8 IN > OUT`, or save it as 'CSV UTF-8' in Excel"
        ) from error


def _too_long(path: Path | str, number: int, limits: Limits) -> InputError:
    return InputError(
        f"{path}:{number}: line longer than {limits.max_line} characters (max_line); split it"
    )
