"""Tensors from .hdf5 files: a file that is anything else is named and refused. Needs h5py."""

from pathlib import Path
from typing import Any

import h5py
import torch
from torch import Tensor

from regard.errors import InputError
from regard.storage.manifest import named

HDF5 = "an HDF5 file"
LARGEST, MOST = 1 << 33, 5_000
"""Bytes that a file's tensors may have, as a compressed file can claim any number, and parts, as groups can go round in
circles."""


def read(path: Path) -> dict[str, Tensor]:
    """All datasets by their paths, those of 16 bits as 32. Raises InputError if it is not a whole and reasonable file
    of numbers, or has parts in other files."""
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
        raise InputError(f"{path}: broken or truncated HDF5 file ({' '.join(str(error).split())})") from error


def _tensors(group: Any, path: Path) -> dict[str, Tensor]:
    """Raises InputError for what is no number, too large or elsewhere."""
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
                raise InputError(f"{path}: {prefix}{name} is a link to another place; refused")
            each = group[name]
            if isinstance(each, h5py.Group):
                groups.append((f"{prefix}{name}/", each))
            elif each.external or each.is_virtual or each.dtype.kind != "f":
                raise InputError(f"{path}: {prefix}{name} is not an array of numbers of its own; refused")
            else:
                found[prefix + name] = each
    size = sum(each.nbytes for each in found.values())
    if size > LARGEST:
        raise InputError(f"{path}: tensors of {size} bytes; at most {LARGEST} are read")
    return {name: _tensor(each) for name, each in sorted(found.items())}


def _tensor(array: Any) -> Tensor:
    tensor = (
        torch.from_numpy(array[()].astype(array.dtype.newbyteorder("="))) if array.shape else torch.tensor(array[()])
    )
    return tensor.float() if tensor.itemsize < 4 else tensor
