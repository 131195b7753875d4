"""Checkpoints: the state of training as JSON and tensors, and back."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pydantic
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import Optimizer

from regard.data.order import OrderPosition
from regard.errors import InputError, RunError
from regard.storage import tensor_shards
from regard.storage.checkpoints import SHARDS, Checkpoint, temporary_of, writing
from regard.storage.manifest import sha256
from regard.storage.run_folder import RunDirectory
from regard.training.batches import Position, Start
from regard.training.objectives import Carried
from regard.training.processes import Processes
from regard.training.schedules import MovingAverage, Plateau, Selection
from regard.training.settings import Training
from regard.training.state import (
    assign,
    gather_full,
    optimizer_tensors,
    random_state,
    restore_random_state,
    seed_everything,
    weights,
)


@dataclass
class Counters:
    """The counters of a run."""

    update: int = 0
    epoch: int = 0
    """The epoch of the next batch."""
    index: int = 0
    """The index of the next batch."""
    chunk: int = 0
    """With `before` a mark in the epoch's order at or before the next batch."""
    before: int = 0
    bad: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Without interruptions."""
    updating: float = 0.0
    validated: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def start(self) -> Start:
        """The place of the next batch."""
        return self.epoch, self.index, OrderPosition(self.chunk, self.before)

    def follow(self, position: Position) -> None:
        """Move on to the batch behind a position."""
        self.epoch, self.index = position.epoch, position.index + 1
        self.chunk, self.before = position.mark.chunk, position.mark.before


@dataclass
class TrainingState:
    """The part of a checkpoint that is not tensors."""

    counters: Counters = field(default_factory=Counters)
    selection: Selection = field(default_factory=Selection)
    plateau: Plateau = field(default_factory=Plateau)

    def to_json(self, processes: Processes, carries: bool) -> dict[str, Any]:
        """Return plain JSON values; every process calls it.

        They have the random states of all processes, and whether each carries tensors
        to its next batch.
        """
        return {
            "counters": asdict(self.counters),
            "selection": self.selection.state(),
            "plateau": asdict(self.plateau),
            "processes": processes.count,
            "random": processes.gather(random_state(processes.device)),
            "carries": processes.gather(carries),
        }

    @classmethod
    def restore(cls, state: dict[str, Any], processes: Processes) -> "TrainingState":
        """Return the training state that `state` was written from.

        With another number of processes training continues behind the batches that were
        read, with the next one that the processes share out.
        """
        parts = json.dumps(
            {name: state[name] for name in ("counters", "selection", "plateau")}
        )
        restored = pydantic.TypeAdapter(cls).validate_json(parts, strict=True)
        counters = restored.counters
        if (
            min(
                counters.update,
                counters.epoch,
                counters.index,
                counters.chunk,
                counters.before,
            )
            < 0
        ):
            raise ValueError(f"negative counters: {counters}")
        if counters.before > counters.index * state["processes"]:
            raise ValueError(f"the mark is behind the position: {counters}")
        counters.index = -(-counters.index * state["processes"] // processes.count)
        return restored


def describe_regrouping(state: dict[str, Any], now: int, accumulate: int) -> str:
    """Return what another number of processes than a checkpoint's changes."""
    before = state["processes"]
    batches = before * state.get("accumulate", accumulate)
    line = f"the checkpoint is of {before} processes and there are {now}: examples keep their order"
    if batches == now * accumulate:
        return f"{line}, and an update has {batches} batches as before; rounding and random numbers differ"
    same = (
        f"; training.accumulate={batches // now} with --allow-change keeps {batches}"
        if batches % now == 0
        else ""
    )
    return f"{line}, and an update has {now * accumulate} batches instead of {batches}, so the weights differ{same}"


def restore_random(
    saved: Sequence[dict[str, Any]], processes: Processes, seed: int
) -> None:
    """Restore the random states of this process.

    A process more than before is seeded with its rank added to `seed`.
    """
    if processes.rank < len(saved):
        restore_random_state(saved[processes.rank], processes.device)
    else:
        seed_everything(seed + processes.rank)


@contextmanager
def explain_restoring(folder: Path) -> Iterator[None]:
    """Turn an error while a checkpoint's state is restored into one line.

    Raises InputError.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RuntimeError,
    ) as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError(
            f"{folder}: its training state cannot be restored, though its SHA-256 is right ({cause}); was it changed? "
            "Remove this folder to resume from the checkpoint before"
        ) from error


def snapshot(
    model: nn.Module,
    optimizer: Optimizer,
    average: MovingAverage | None,
    carried: Carried | None,
    processes: Processes,
) -> dict[str, dict[str, Tensor]]:
    """Return groups of tensors.

    `model`, `optimizer`, `average` with a moving average, and `carried-N` for each
    process with tensors for its next batch. They are whole and on the CPU, or where
    weights are sharded this process's part and its own `carried-N`. Every process calls
    it; the tensors may share memory with the model.
    """
    sharded = any(isinstance(each, DTensor) for each in model.parameters())
    form: Callable[[Tensor], Tensor] = torch.detach if sharded else gather_full
    groups = {
        "model": weights(model, form),
        "optimizer": optimizer_tensors(model, optimizer, form),
    }
    if average is not None:
        groups["average"] = average_tensors(model, average, form)
    carried_here = (
        None
        if carried is None
        else {name: tensor.cpu().contiguous() for name, tensor in carried.items()}
    )
    for rank, each in (
        [(processes.rank, carried_here)]
        if sharded
        else enumerate(processes.gather(carried_here))
    ):
        if each is not None:
            groups[f"carried-{rank}"] = each
    return groups


def average_tensors(
    model: nn.Module, average: MovingAverage, form: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Return the moving average by parameter names."""
    with average.use():
        averaged = {id(parameter) for parameter in average.parameters}
        return {
            name: form(tensor).clone()
            for name, tensor in model.named_parameters()
            if id(tensor) in averaged
        }


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load weights into the model, sharded or not.

    Raises:
        InputError: a tensor is missing or has another shape.
    """
    for name, target in model.state_dict().items():
        if name not in tensors or tensors[name].shape != target.shape:
            shape = list(tensors[name].shape) if name in tensors else "nothing"
            raise InputError(
                f"{name}: the model has {list(target.shape)}, the checkpoint {shape}; is it of this model?"
            )
        assign(target, tensors[name])


def load_average(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load a moving average into the model's parameters."""
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        assign(parameters[name], value)


Groups = Mapping[str, Mapping[str, Tensor]]


class CheckpointWriter:
    """Writes checkpoints and removes older ones; every process calls it.

    A checkpoint is there once it is complete.
    """

    def __init__(
        self, run: RunDirectory, processes: Processes, settings: Training
    ) -> None:
        self.run, self.processes = run, processes
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
        """Save groups of tensors.

        Those of a sharded run are copied now and written later, after the checkpoint
        before.

        Raises RunError where this checkpoint, or the one before, cannot be written.
        """
        if self._group is None:
            if self.processes.main:
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
            self._write, update, copy_to_cpu(parts), state, outdated
        )

    def wait(self) -> None:
        """Wait until this process's part of the last checkpoint is written.

        The first process's is the checkpoint itself. Raises RunError where it cannot be
        written.
        """
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def newest(self) -> Checkpoint | None:
        """Return the latest undamaged checkpoint.

        The first process compares it with its digests for all.
        """
        shape = self.run.newest_checkpoint() if self.processes.main else None
        step = self.processes.from_main(None if shape is None else shape.step)
        return (
            shape
            if step is None or self.processes.main
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
        writer = (
            writing(self.run.checkpoints, update, state)
            if self.processes.main
            else nullcontext((folder, {}))
        )
        with writer as (temporary, digests):
            torch.distributed.barrier(
                self._group
            )  # the first process has removed the remains of a failed attempt
            tensor_shards.write(temporary / SHARDS, parts, self._group)
            path = tensor_shards.part_of(temporary / SHARDS, self.processes.rank)
            carried_here = (
                {}
                if path is None
                else {path.relative_to(temporary).as_posix(): sha256(path)}
            )
            shape: list[Any] = [None] * self.processes.count
            torch.distributed.all_gather_object(shape, carried_here, group=self._group)
            digests.update(
                {name: digest for tensor in shape for name, digest in tensor.items()}
            )
        if self.processes.main:
            self._remove(outdated)

    def _remove(self, outdated: Sequence[int]) -> None:
        for old in set(outdated) & set(self.run.checkpoint_steps()):
            self.run.remove_checkpoint(old)


def copy_to_cpu(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of tensors on the CPU, of sharded ones this process's part."""
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    stager = DefaultStager(StagingOptions(False, False, False, False))
    copied: Any = stager.stage(parts)
    stager.close()
    return copied
