"""The checkpoints of a run: whole ones that the first process writes at once, and those of sharded weights, of which
each process writes its part while training goes on."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from regard.storage import tensor_shards
from regard.storage.checkpoints import SHARDS, Checkpoint, temporary_of, writing
from regard.storage.manifest import sha256
from regard.storage.run_folder import RunDirectory
from regard.training.processes import Processes
from regard.training.settings import Training

Groups = Mapping[str, Mapping[str, Tensor]]


class CheckpointWriter:
    """Writes checkpoints and removes older ones; every process calls it. A checkpoint is there once it is complete."""

    def __init__(self, run: RunDirectory, here: Processes, settings: Training) -> None:
        self.run, self.here = run, here
        self._group: Any = None
        if (
            settings.sharded
        ):  # of their own, since training exchanges gradients at the same time
            limit = timedelta(seconds=settings.process_timeout)
            self._group = torch.distributed.new_group(backend="gloo", timeout=limit)
            self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._pending: Future[None] | None = None

    def save(
        self,
        update: int,
        groups: Groups,
        state: Mapping[str, Any],
        outdated: Sequence[int],
    ) -> None:
        """Save groups of tensors; those of a sharded run are copied now and written later, after the checkpoint before.

        Raises RunError where this checkpoint, or the one before, cannot be written.
        """
        if self._group is None:
            if self.here.main:
                self.run.save_checkpoint(update, groups, state)
                self._remove(outdated)
            return
        self.wait()
        parts = {
            f"{group}/{name}": tensor
            for group, tensors in groups.items()
            for name, tensor in tensors.items()
        }
        self._pending = self._thread.submit(
            self._write, update, staged(parts), state, outdated
        )

    def wait(self) -> None:
        """Wait until this process's part of the last checkpoint is written; the first process's is the checkpoint
        itself. Raises RunError where it cannot be written."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def newest(self) -> Checkpoint | None:
        """The latest undamaged checkpoint, which the first process compares with its digests for all."""
        found = self.run.newest_checkpoint() if self.here.main else None
        step = self.here.from_main(None if found is None else found.step)
        return (
            found
            if step is None or self.here.main
            else self.run.checkpoint(step, verified=True)
        )

    def _write(
        self,
        update: int,
        parts: dict[str, Tensor],
        state: Mapping[str, Any],
        outdated: Sequence[int],
    ) -> None:
        folder = temporary_of(self.run.checkpoints, update)
        whole = (
            writing(self.run.checkpoints, update, state)
            if self.here.main
            else nullcontext((folder, {}))
        )
        with whole as (temporary, digests):
            torch.distributed.barrier(
                self._group
            )  # the first process has removed the remains of a failed attempt
            tensor_shards.write(temporary / SHARDS, parts, self._group)
            path = tensor_shards.part_of(temporary / SHARDS, self.here.rank)
            own = (
                {}
                if path is None
                else {path.relative_to(temporary).as_posix(): sha256(path)}
            )
            found: list[Any] = [None] * self.here.count
            torch.distributed.all_gather_object(found, own, group=self._group)
            digests.update(
                {name: digest for each in found for name, digest in each.items()}
            )
        if self.here.main:
            self._remove(outdated)

    def _remove(self, outdated: Sequence[int]) -> None:
        for old in set(outdated) & set(self.run.checkpoint_steps()):
            self.run.remove_checkpoint(old)


def staged(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """A copy of tensors on the CPU, of sharded ones this process's part."""
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    stager = DefaultStager(StagingOptions(False, False, False, False))
    copied: Any = stager.stage(parts)
    stager.close()
    return copied
