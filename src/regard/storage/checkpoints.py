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


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints in a folder, each named by its step."""

    root: Path

    def folder(self, step: int) -> Path:
        """Return where the checkpoint of `step` is, or would be."""
        return self.root / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints, ascending, by their names."""
        matches = (NAME.fullmatch(path.name) for path in self.root.glob("*"))
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self,
        step: int,
        groups: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
    ) -> None:
        """Write named groups of tensors and a JSON state; replace those of this step.

        Raises:
            RunError: The disk is full or read-only; older checkpoints stay as they are.
            ValueError: A group has a bad name.
        """
        folder = self.folder(step)
        text = json.dumps(dict(state))
        with replacing(folder) as temporary:
            discard(temporary)
            temporary.mkdir()
            for group, values in groups.items():
                weights.write(temporary / check_name(group + ENDING), values)
            (temporary / STATE).write_text(text, encoding="utf-8")
            manifest = Manifest(temporary, "checkpoint")
            for path in temporary.iterdir():
                sync(path)
                manifest.files[path.name] = [sha256(path)]
            manifest.write()
            # as late as possible: only a rename is left
            old = move_aside(folder) if folder.exists() else None
        if old is not None:
            discard(old)

    def load(self, step: int, *, verified: bool = False) -> Checkpoint:
        """Return a checkpoint whose files are as they were written.

        Args:
            step: The step.
            verified: Whether all but its state were compared with their digests before.

        Raises:
            InputError: It is missing, or a file differs.
        """
        folder = resolve_inside(self.root, self.folder(step).name)
        manifest = Manifest.read(folder)
        for name in () if verified else manifest.files:
            manifest.check(name)
        path = manifest.check(STATE)
        return Checkpoint(step, folder, parse_json(path, content(path), dict[str, Any]))

    def newest(self) -> Checkpoint | None:
        """Return the latest undamaged checkpoint; None if there is none at all.

        Each damaged one is skipped with a warning.

        Raises:
            InputError: All are damaged.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                return self.load(step)
            except InputError as error:
                message = "checkpoint of step %d is damaged and skipped: %s"
                log.warning(message, step, error)
        if steps:
            raise InputError(
                f"{self.root}: none of its {len(steps)} checkpoints is undamaged; start "
                "again with another --out"
            )
        return None

    def remove(self, step: int) -> None:
        """Remove a checkpoint; its name disappears first, so that it is never half there.

        Raises:
            InputError: There is none of this step.
        """
        folder = self.folder(step)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such checkpoint; there are {self.steps()}")
        discard(move_aside(folder))


def move_aside(folder: Path) -> Path:
    """Rename a folder, whose remains are removed at the next start at the latest."""
    unnamed = folder.with_name(f"{folder.name}.removed{SUFFIX}")
    with explain_errors(folder):
        discard(unnamed)
        os.replace(folder, unnamed)
    return unnamed
