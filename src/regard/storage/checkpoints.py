"""Checkpoints: folders that appear whole and are verified before use.

They are ordered by the step in their name.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.storage import tensors as weights
from regard.storage.atomic import SUFFIX, discard, explain_errors, replacing, sync
from regard.storage.manifest import (
    CHANGED,
    Manifest,
    check_name,
    content,
    parse_json,
    resolve_inside,
    sha256,
)

STATE = "state.json"
ENDING = ".safetensors"
NAME = re.compile(r"step-(\d{8,})")
log = logging.getLogger("regard")


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint; its state is JSON, so tuples have become lists."""

    step: int
    folder: Path
    state: dict[str, Any]

    def tensors(self, group: str) -> dict[str, Tensor]:
        """Return the tensors saved under `group`, on the CPU.

        Raises:
            InputError: There is no such group.
        """
        return weights.read(Manifest.read(self.folder).check(group + ENDING))


def folder_of(root: Path, step: int) -> Path:
    """Return where the checkpoint of `step` is, or would be."""
    return root / f"step-{step:08d}"


def steps(root: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, ascending, by their names."""
    if not root.is_dir():
        return []
    matches = (NAME.fullmatch(path.name) for path in root.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def save(
    root: Path,
    step: int,
    groups: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
) -> None:
    """Write a checkpoint with one file for each group; replace one of the same step.

    Raises:
        RunError: The disk is full or read-only; older checkpoints stay as they are.
        ValueError: A group has a bad name.
    """
    folder = folder_of(root, step)
    text = json.dumps(dict(state))
    with replacing(folder) as temporary:
        discard(temporary)
        temporary.mkdir()
        for group, values in groups.items():
            weights.write(temporary / check_name(group + ENDING), values)
        (temporary / STATE).write_text(text, encoding="utf-8")
        digests = {}
        for path in temporary.iterdir():
            sync(path)
            digests[path.name] = [sha256(path)]
        Manifest(temporary, "checkpoint", digests).write()
        sync(temporary)
        # as late as possible: only a rename is left
        old = move_aside(folder) if folder.exists() else None
    if old is not None:
        discard(old)


def load(root: Path, step: int, *, verified: bool = False) -> Checkpoint:
    """Return a checkpoint whose files are as they were written.

    Args:
        root: The folder of checkpoints.
        step: The step.
        verified: Whether all but its state were compared with their digests before.

    Raises:
        InputError: It is missing, or a file differs.
    """
    manifest = Manifest.read(resolve_inside(root, folder_of(root, step).name))
    for name in () if verified else manifest.files:
        manifest.check(name)
    path = manifest.check(STATE)
    state = parse_json(path, content(path))
    if not isinstance(state, dict):
        raise InputError(f"{path}: is no state of training, {CHANGED}")
    return Checkpoint(step, manifest.folder, state)


def newest(root: Path) -> Checkpoint | None:
    """Return the latest undamaged checkpoint; None if there is none at all.

    Each damaged one is skipped with a warning.

    Raises:
        InputError: All are damaged.
    """
    saved = steps(root)
    for step in reversed(saved):
        try:
            return load(root, step)
        except InputError as error:
            log.warning("checkpoint of step %d is damaged and skipped: %s", step, error)
    if saved:
        raise InputError(
            f"{root}: none of its {len(saved)} checkpoints is undamaged; start again "
            "with another --out"
        )
    return None


def remove(root: Path, step: int) -> None:
    """Remove a checkpoint; its name disappears first, so that it is never half there.

    Raises:
        InputError: There is none of this step.
    """
    folder = folder_of(root, step)
    if not folder.is_dir():
        listed = ", ".join(map(str, steps(root))) or "none"
        raise InputError(f"{folder}: no such checkpoint; there are {listed}")
    discard(move_aside(folder))


def move_aside(folder: Path) -> Path:
    """Rename a folder, whose remains are removed at the next start at the latest."""
    unnamed = folder.with_name(f"{folder.name}.removed{SUFFIX}")
    with explain_errors(folder):
        discard(unnamed)
        os.replace(folder, unnamed)
    return unnamed
