"""IDX files, the format of MNIST and its relatives: big-endian sizes, then bytes."""

import gzip
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from regard.config.recognition import compression
from regard.data.limits import Limits
from regard.errors import InputError

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
