"""Arrays in .npz and IDX files, whose headers are checked before memory is allocated."""

import math
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from jaxtyping import UInt8
from numpy.lib import format as npy

from regard.config.file_kinds import compression
from regard.data.files import DAMAGED, FileLimits, open_file, read_error
from regard.errors import InputError

HEADER = 1 << 12
"""The characters in the header of an array at most."""
BYTES = 0x08
"""The third byte of an IDX file whose numbers are bytes."""


def arrays(path: str, names: Sequence[str]) -> list[np.ndarray]:
    """Read the arrays `names` of an .npz file.

    Raises:
        InputError: The file is missing, damaged, larger than its bounds or of another
            format, or the header of an array claims another size than the file has.
    """
    try:
        bounds = FileLimits().of(path)
        with ZipFile(path) as archive:
            entries = [archive.getinfo(f"{name}.npy") for name in names]
            bounds.check(path, sum(entry.file_size for entry in entries))
            return [_read_array(archive, entry) for entry in entries]
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except InputError:
        raise
    except (*DAMAGED, ValueError, LookupError, RuntimeError, BadZipFile) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: no .npz with {', '.join(names)} ({reason}); of a folder with a "
            "folder a class the key data.kind is class-folders"
        ) from error


def _read_array(archive: ZipFile, entry: ZipInfo) -> np.ndarray:
    """Read an array after a look at its header. Raises ValueError."""
    with archive.open(entry) as file:
        version = npy.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{entry.filename} is of version {version}")
        shape, _, kind = npy.read_array_header_1_0(file, max_header_size=HEADER)
        claimed = math.prod(shape) * kind.itemsize
        size = entry.file_size - file.tell()
        if kind.hasobject or min(shape, default=0) < 0 or claimed != size:
            raise ValueError(
                f"{entry.filename} claims {kind} {shape}, {claimed:,} bytes, and has "
                f"{size:,}"
            )
    with archive.open(entry) as file:
        return npy.read_array(file, allow_pickle=False, max_header_size=HEADER)


def read_idx(path: Path, axes: int) -> UInt8[np.ndarray, "..."]:
    """Read the array of an IDX file with `axes` axes.

    Raises:
        InputError: The file is missing, damaged, empty, larger than its bounds or of
            another format.
    """
    with open_file(path) as file:
        try:
            head = file.read(4 + 4 * axes)
            if head[:4] != bytes([0, 0, BYTES, axes]) or len(head) < 4 + 4 * axes:
                raise InputError(
                    f"{path}: is no IDX file of bytes with {axes} axes; it begins with "
                    f"{head[:4].hex(' ')}"
                )
            sizes = np.frombuffer(head, dtype=">u4", offset=4).tolist()
            size = math.prod(sizes)
            FileLimits().of(path).check(str(path), size)
            fits = compression(path) or size < path.stat().st_size
            content = file.read(size + 1) if fits else b""
        except DAMAGED as error:
            raise read_error(path, 0, error) from error
    if len(content) != size or not size:
        excess = "more" if len(content) > size else "fewer"
        raise InputError(
            f"{path}: says {' x '.join(map(str, sizes))} bytes, at least one, but it has "
            f"{excess}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)
