"""Checkpoints: folders that appear whole, are ordered by the step in their name and are verified before use."""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.storage import tensor_shards
from regard.storage import tensors as weights
from regard.storage.atomic import SUFFIX, discard, explained, replacing, sync
from regard.storage.manifest import (
    CHANGED,
    Manifest,
    content,
    inside,
    parsed,
    plain,
    sha256,
)

STATE = "state.json"
ENDING = ".safetensors"
SHARDS = "shards"
"""The folder of tensors that several processes wrote, each its part, as `GROUP/NAME`."""
NAME = re.compile(r"step-(\d{8,})")
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint. `state` is JSON: tuples have become lists."""

    step: int
    folder: Path
    state: dict[str, Any]

    def tensors(
        self, group: str, like: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """The tensors saved under `group`: whole on the CPU, but those of a checkpoint in parts as the sharded tensors
        of the same names in `like`. Raises InputError if there is no such group."""
        manifest = Manifest.read(self.folder)
        if self.in_parts:
            if found := tensor_shards.read(
                self.folder / SHARDS, f"{group}/", like or {}
            ):
                return found
            raise InputError(f"{self.folder / SHARDS}: has no tensors of {group}")
        return weights.read(manifest.check(group + ENDING))

    @property
    def in_parts(self) -> bool:
        """Whether several processes wrote it, each its part."""
        return any(
            name.startswith(f"{SHARDS}/") for name in Manifest.read(self.folder).files
        )


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint of `step` is, or would be."""
    return root / f"step-{step:08d}"


def steps(root: Path) -> list[int]:
    """Ascending steps of the checkpoints in the folder `root`, by their names, never by file times."""
    if not root.is_dir():
        return []
    return sorted(
        int(found[1]) for path in root.iterdir() if (found := NAME.fullmatch(path.name))
    )


def save(
    root: Path,
    step: int,
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
) -> None:
    """Write a checkpoint with one .safetensors file for each group; replace one of the same step.

    Raises RunError when the disk is full or read-only (older checkpoints stay as they are); ValueError for a bad name.
    """
    with writing(root, step, state) as (temporary, _):
        temporary.mkdir()
        for group, tensors in groups.items():
            weights.write(temporary / plain(group + ENDING), tensors)
        for path in temporary.iterdir():
            sync(path)


@contextmanager
def writing(
    root: Path, step: int, state: Mapping[str, Any]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Write a checkpoint: the folder at the path inside, with files that are flushed, becomes one. The digests of files
    that are known may be put into the dictionary inside. Raises as `save` does."""
    folder = folder_of(root, step)
    text = json.dumps(dict(state))
    digests: dict[str, str] = {}
    with replacing(folder) as temporary:
        discard(temporary)
        yield temporary, digests
        (temporary / STATE).write_text(text, encoding="utf-8")
        sync(temporary / STATE)
        for path in temporary.rglob("*"):
            if (
                path.is_file()
                and (name := path.relative_to(temporary).as_posix()) not in digests
            ):
                digests[name] = sha256(path)
        Manifest(
            temporary,
            "checkpoint",
            {name: [digest] for name, digest in digests.items()},
        ).write()
        sync(temporary)
        old = (
            _aside(folder) if folder.exists() else None
        )  # as late as possible: only a rename is left
    if old is not None:
        discard(old)


def temporary_of(root: Path, step: int) -> Path:
    """Where the checkpoint of `step` is written."""
    folder = folder_of(root, step)
    return folder.with_name(folder.name + SUFFIX)


def load(root: Path, step: int, *, verified: bool = False) -> Checkpoint:
    """The verified checkpoint; one that was `verified` before is not compared with its digests again, but for its
    state. Raises InputError with the file that differs from what was written."""
    manifest = Manifest.read(inside(root, folder_of(root, step).name))
    for name in () if verified else manifest.files:
        manifest.check(name)
    path = manifest.check(STATE)
    state = parsed(path, content(path))
    if not isinstance(state, dict):
        raise InputError(f"{path}: is no state of training, {CHANGED}")
    return Checkpoint(step, manifest.folder, state)


def newest(root: Path) -> Checkpoint | None:
    """The latest undamaged checkpoint; each damaged one is skipped with a warning.

    None if there is none at all; raises InputError if there are some and all are damaged.
    """
    found = steps(root)
    for step in reversed(found):
        try:
            return load(root, step)
        except InputError as error:
            log.warning("checkpoint of step %d is damaged and skipped: %s", step, error)
    if found:
        raise InputError(
            f"{root}: none of its {len(found)} checkpoints is undamaged; start again with another --out"
        )
    return None


def remove(root: Path, step: int) -> None:
    """Remove a checkpoint; its name disappears first, so that it is never half there. Raises InputError if there is
    none of this step."""
    folder = folder_of(root, step)
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such checkpoint; there are {', '.join(map(str, steps(root))) or 'none'}"
        )
    discard(_aside(folder))


def _aside(folder: Path) -> Path:
    """Rename the folder in one step; its remains are removed at the next start at the latest."""
    unnamed = folder.with_name(f"{folder.name}.removed{SUFFIX}")
    with explained(folder):
        discard(unnamed)
        os.replace(folder, unnamed)
    return unnamed
