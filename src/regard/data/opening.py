"""Files as streams of bytes, of this machine or by a URL, decompressed by the ending of their name. Every error is one
line."""

import gzip
import importlib
import io
import os
import zlib
from glob import glob
from pathlib import Path
from typing import Any

from regard.config.recognition import compression
from regard.data.remote import (
    is_remote,
    open_remote,
    remote_names,
    remote_size,
    remote_stamp,
)
from regard.errors import InputError

MAGIC = frozenset("*?[")
WINDOWS = frozenset({"thumbs.db", "desktop.ini"})
CHUNK = 1 << 20


def opened(path: Path | str) -> io.BufferedReader:
    """The content of a file: of a .gz or .zst file what is compressed in it. Raises InputError for a file that is
    missing, unreadable or a directory."""
    name = str(path)
    if is_remote(name):
        return _decompressed(open_remote(name), name)
    try:
        if Path(name).is_dir():
            raise InputError(f"{path}: is a directory; expected a text file")
        return _decompressed(Path(name).open("rb"), name)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})"
        ) from error


class _Decompressed(io.BufferedReader):
    """A stream of what another stream has compressed, which it closes."""

    def __init__(self, raw: Any, source: Any) -> None:
        super().__init__(raw)  # its lines are split in C
        self.source = source

    def close(self) -> None:
        super().close()
        self.source.close()


def _decompressed(stream: Any, name: str) -> io.BufferedReader:
    kind = compression(name)
    if kind == ".gz":
        return _Decompressed(gzip.GzipFile(fileobj=stream), stream)
    if kind == ".zst":
        pa = importlib.import_module("pyarrow")
        return _Decompressed(
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


def unreadable(path: Path | str, offset: int, error: Exception) -> InputError:
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


def hidden(path: Path) -> bool:
    """Whether a name begins with a dot, or is of a file that Windows keeps in a folder."""
    return path.name.startswith(".") or path.name.lower() in WINDOWS


def files_of(path: str) -> list[str]:
    """The files that a path names, sorted: those in a folder, those that fit a pattern with *, ? or **, or the path
    itself. Hidden names and those that begin with an underscore are left out of folders. Raises InputError for none."""
    if is_remote(path):
        found = remote_names(path) if MAGIC & set(path) else [path]
    elif os.path.isdir(path):
        found = sorted(
            str(each)
            for each in Path(path).iterdir()
            if each.is_file() and not hidden(each) and each.name[0] != "_"
        )
    elif MAGIC & set(path) and not os.path.exists(path):
        found = sorted(
            each for each in glob(path, recursive=True) if os.path.isfile(each)
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


def stamp(path: str) -> list[Any]:
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
