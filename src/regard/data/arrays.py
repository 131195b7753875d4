"""Arrays in .npz files, whose headers are compared with the files before anything is allocated."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from regard.data.limits import Limits
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
