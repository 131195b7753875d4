"""Files as streams of bytes, decompressed by the ending of their name. Every error is one line."""

import gzip
import io
import zlib
from pathlib import Path

from regard.errors import InputError


def compressed(path: Path) -> bool:
    """Whether a file is compressed by its name."""
    return path.suffix.lower() == ".gz"


def opened(path: Path) -> io.BufferedReader:
    """The content of a file: of a .gz file what is compressed in it. Raises InputError for a file that is missing,
    unreadable or a directory."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a directory; expected a text file")
        if compressed(path):
            return io.BufferedReader(gzip.open(path, "rb"))  # type: ignore[arg-type]  # its lines are split in C
        return path.open("rb")
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error


def unreadable(path: Path, offset: int, error: Exception) -> InputError:
    """The line about an error of reading the content behind `offset`: the file is cut off, damaged or unreadable."""
    if isinstance(error, EOFError):
        return InputError(f"{path}: the gzip file is cut off near byte {offset} of its content; fetch it again")
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return InputError(f"{path}: not a sound gzip file ({error}); fetch it again or rename it")
    return InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})")


DAMAGED = (EOFError, zlib.error, OSError)
"""What reading raises of a file that is cut off, damaged or unreadable."""
