"""Arrays in .npz and IDX files, whose headers are checked before memory is allocated."""

import gzip
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy.lib import format as npy

from regard.config.file_kinds import compression
from regard.data.files import Limits
from regard.errors import InputError

HEADER = 1 << 12
"""The most characters in the header of an array."""


def arrays(path: str, names: Sequence[str]) -> list[np.ndarray]:
    """The arrays `names` of an .npz file. Raises InputError for a file that is missing, damaged, larger than its bounds
    (`Limits.of`) or of another format, and for an array whose header claims another size than the file has."""
    if Path(path).is_dir():
        raise InputError(
            f"{path}: is a folder; expected an .npz file, or with data.kind=class-folders a folder a class"
        )
    try:
        bounds = Limits().of(Path(path))
        with zipfile.ZipFile(path) as archive:
            entries = {name: archive.getinfo(f"{name}.npy") for name in names}
            bounds.check(path, sum(entry.file_size for entry in entries.values()))
            return [_array(path, archive, entry) for entry in entries.values()]
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError, RuntimeError) as error:
        raise _foreign(path, names, error) from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise _foreign(path, names, error) from error


def _foreign(path: str, names: Sequence[str], error: Exception) -> InputError:
    return InputError(
        f"{path}: no .npz with {', '.join(names)} ({' '.join(str(error).split())[:200]})"
    )


def _array(path: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{entry.filename} is of version {version}")
        read = (
            npy.read_array_header_1_0
            if version == (1, 0)
            else npy.read_array_header_2_0
        )
        shape, _, kind = read(file, max_header_size=HEADER)
        size, rest = math.prod(shape) * kind.itemsize, entry.file_size - file.tell()
        if kind.hasobject or min(shape, default=0) < 0 or size != rest:
            raise ValueError(
                f"{entry.filename} claims {kind} {shape}, {size:,} bytes, and has {rest:,}"
            )
    with archive.open(entry) as file:
        return npy.read_array(file, allow_pickle=False, max_header_size=HEADER)


BYTES = 0x08
"""The third byte of a file whose numbers are bytes."""


def read_idx(path: Path, axes: int) -> UInt8[np.ndarray, "..."]:
    """Read the array of a file with `axes` axes. Raises InputError if it is missing, damaged, empty or of another
    format, or larger than its bounds (`Limits.of`)."""
    try:
        with gzip.open(path) if compression(path) == ".gz" else path.open("rb") as file:
            head = file.read(4 + 4 * axes)
            sizes = _sizes(path, head, axes)
            size = int(np.prod(sizes, dtype=object))
            Limits().of(path).check(str(path), size)
            content = (
                file.read(size + 1)
                if compression(path) == ".gz" or size < path.stat().st_size
                else b""
            )
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}: not a sound gzip file ({error}); fetch it again"
        ) from error
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})"
        ) from error
    shape = " x ".join(map(str, sizes))
    if len(content) != size or not size:
        what = "more" if len(content) > size else "fewer"
        raise InputError(
            f"{path}: says {shape} bytes, at least one, but it has {what}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)


def _sizes(path: Path, head: bytes, axes: int) -> list[int]:
    if head[:4] != bytes([0, 0, BYTES, axes]) or len(head) < 4 + 4 * axes:
        raise InputError(
            f"{path}: is no IDX file of bytes with {axes} axes; it begins with {head[:4].hex(' ')}"
        )
    return np.frombuffer(head, dtype=">u4", offset=4).tolist()
