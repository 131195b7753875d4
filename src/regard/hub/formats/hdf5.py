"""Read tensors from HDF5 files; any other file is refused. Needs h5py."""

from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from regard.errors import InputError
from regard.storage.manifest import named

HDF5 = "an HDF5 file"
LARGEST, MOST = 1 << 33, 5_000
"""Most bytes of a file's tensors, which a compressed file can claim freely, and most parts, since groups can form
circles."""


def read(path: Path) -> dict[str, Tensor]:
    """Read all datasets by their paths, float16 as float32. Raises InputError for a file that is broken, too large, not
    numeric or linked to other files."""
    try:
        what = "a directory" if path.is_dir() else named(path) or "something else"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if what != HDF5:
        raise InputError(f"{path}: is {what}; expected an HDF5 file of weights")
    try:
        with h5py.File(path, "r") as file:
            return _tensors(file, path)
    except InputError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise InputError(
            f"{path}: broken or truncated HDF5 file ({' '.join(str(error).split())})"
        ) from error


def _tensors(group: Any, path: Path) -> dict[str, Tensor]:
    """Read the datasets below a group. Raises InputError for non-numeric, too large or linked data."""
    found: dict[str, Any] = {}
    groups, count = [("", group)], 0
    while groups:
        prefix, group = groups.pop()
        count += 1 + len(group)
        if count > MOST:
            raise InputError(f"{path}: more than {MOST} tensors and groups; refused")
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise InputError(
                    f"{path}: {prefix}{name} is a link to another place; refused"
                )
            each = group[name]
            if isinstance(each, h5py.Group):
                groups.append((f"{prefix}{name}/", each))
            elif each.external or each.is_virtual or each.dtype.kind != "f":
                raise InputError(
                    f"{path}: {prefix}{name} is not an array of numbers of its own; refused"
                )
            else:
                found[prefix + name] = each
    size = sum(each.nbytes for each in found.values())
    if size > LARGEST:
        raise InputError(f"{path}: tensors of {size} bytes; at most {LARGEST} are read")
    return {name: _tensor(each) for name, each in sorted(found.items())}


def _tensor(array: Any) -> Tensor:
    tensor = (
        torch.from_numpy(array[()].astype(array.dtype.newbyteorder("=")))
        if array.shape
        else torch.tensor(array[()])
    )
    return tensor.float() if tensor.itemsize < 4 else tensor
