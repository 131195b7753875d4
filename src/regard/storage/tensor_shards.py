"""Tensors that several processes write, each its part, through torch.distributed.checkpoint into safetensors files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.errors import InputError, RunError
from regard.storage.atomic import explained
from regard.storage.tensors import check

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

ENDING = ".safetensors"


def write(folder: Path, tensors: Mapping[str, Tensor], group: ProcessGroup) -> None:
    """Write this process's part of tensors, of those that every process has whole one copy. Each process of the group
    calls it with its own; the folder is made.

    Raises RunError on every process where one cannot write.
    """
    from torch.distributed import (
        checkpoint,
    )  # with its planner, which takes 0.2 seconds

    writer = checkpoint.HuggingFaceStorageWriter(str(folder), save_distributed=True)
    with _failures(folder):
        checkpoint.save(dict(tensors), storage_writer=writer, process_group=group)


def part_of(folder: Path, rank: int) -> Path | None:
    """The file that a process wrote, if it had anything to write."""
    return next(iter(folder.glob(f"shard-{rank + 1:05}-*{ENDING}")), None)


def read(folder: Path, prefix: str, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names: in parts as the tensor of the same name
    and shape in `like`, else whole on the CPU.

    Raises InputError for files that are no such parts, or not all of them.
    """
    from torch.distributed import checkpoint

    for path in folder.glob(f"*{ENDING}"):
        check(path)
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    found: dict[str, Tensor] = {}
    for name, about in reader.read_metadata().state_dict_metadata.items():
        if not name.startswith(prefix) or not isinstance(
            about, checkpoint.TensorStorageMetadata
        ):
            continue
        if sum(chunk.sizes.numel() for chunk in about.chunks) != about.size.numel():
            raise InputError(
                f"{folder}: has not all parts of {name}; expected {list(about.size)}"
            )
        form = like.get(name.removeprefix(prefix))
        if form is not None and form.shape == about.size:
            found[name] = torch.empty_like(form)
        else:
            found[name] = torch.empty(about.size, dtype=about.properties.dtype)
    with _failures(folder), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "torch.distributed is disabled"
        )  # every process reads what it needs alone
        checkpoint.load(found, storage_reader=reader, no_dist=True)
    return {name.removeprefix(prefix): tensor for name, tensor in found.items()}


@contextmanager
def _failures(folder: Path) -> Iterator[None]:
    """Turn the failure of a process into one line."""
    from torch.distributed.checkpoint import CheckpointException

    try:
        yield
    except CheckpointException as error:  # it is no Exception
        rank, (cause, _) = min(error.failures.items())
        with explained(folder):
            if isinstance(cause, OSError):
                raise cause from error
        what = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
        raise RunError(
            f"{folder}: process {rank} failed in its part of a checkpoint ({what})"
        ) from cause
