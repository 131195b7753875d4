"""Checkpoints: the state of training as JSON and tensors, and back."""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.data.batches import OrderPosition
from regard.errors import InputError, RunError
from regard.storage.tensors import separate_tensors
from regard.training.objectives import Carried
from regard.training.settings import MovingAverage, Selection
from regard.training.update import BatchPosition, Processes, Start

ADAM = {"step", "exp_avg", "exp_avg_sq"}
"""The tensors that Adam keeps for a parameter."""


def seed_everything(seed: int) -> None:
    """Seed the global random states of Python, NumPy and PyTorch (all devices)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: torch.device) -> dict[str, Any]:
    """Return the global random states as plain JSON values."""
    kind, keys, *numbers = np.random.get_state()
    state = {
        "python": random.getstate(),
        "numpy": [kind, np.asarray(keys).tolist(), *numbers],
        "torch": _hexadecimal(torch.get_rng_state()),
    }
    if device.type != "cpu":
        module = torch.get_device_module(device)
        state["device"] = _hexadecimal(module.get_rng_state(device))
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore the random states that `random_state` returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(_bytes(state["torch"]))
    if "device" in state and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(_bytes(state["device"]), device)


@contextmanager
def keep_random_state(device: torch.device) -> Iterator[None]:
    """Restore the caller's global random states at the end."""
    state = random_state(device)
    try:
        yield
    finally:
        restore_random_state(state, device)


def _hexadecimal(state: Tensor) -> str:
    return state.numpy().tobytes().hex()


def _bytes(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def restore_optimizer(
    model: nn.Module,
    optimizer: Optimizer,
    tensors: dict[str, Tensor],
) -> None:
    """Restore the optimizer's state from tensors by `parameter name:key`.

    Raises ValueError for a state that is not Adam's.
    """
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        parameter, key = name.rsplit(":", 1)
        target = parameters[parameter]
        if key != "step" and value.shape != target.shape:
            raise ValueError(f"{name} is {[*value.shape]}, not {[*target.shape]}")
        optimizer.state[target][key] = value.to(target.device, copy=True)
    for target, state in optimizer.state.items():
        if set(state) != ADAM or state["step"].dim():
            raise ValueError(
                f"Adam's state of a parameter {list(target.shape)} is incomplete"
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

    def follow(self, position: BatchPosition) -> None:
        """Move on to the batch behind a position."""
        self.epoch = position.epoch
        self.index = position.index + 1
        self.chunk = position.mark.chunk
        self.before = position.mark.before


@dataclass
class TrainingState:
    """The part of a checkpoint that is not tensors."""

    counters: Counters = field(default_factory=Counters)
    selection: Selection = field(default_factory=Selection)

    def to_json(self, processes: Processes, carries: bool) -> dict[str, Any]:
        """Return plain JSON values; every process calls it.

        They have the random states of all processes, and whether each carries tensors
        to its next batch.
        """
        return {
            "counters": asdict(self.counters),
            "selection": asdict(self.selection),
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
        parts = json.dumps({name: state[name] for name in ("counters", "selection")})
        restored = pydantic.TypeAdapter(cls).validate_json(parts, strict=True)
        counters = restored.counters
        epoch, index, mark = counters.start
        if (
            min(
                counters.update,
                epoch,
                index,
                mark.chunk,
                mark.before,
            )
            < 0
        ):
            raise ValueError(f"negative counters: {counters}")
        batches = counters.index * state["processes"]
        if counters.before > batches:
            raise ValueError(f"the mark is behind the position: {counters}")
        counters.index = -(-batches // processes.count)
        return restored


def describe_regrouping(state: dict[str, Any], now: int, accumulate: int) -> str:
    """Return what another number of processes than a checkpoint's changes."""
    before = state["processes"]
    batches = before * state.get("accumulate", accumulate)
    line = f"the checkpoint is of {before} processes and there are {now}: examples keep their order"
    if batches == now * accumulate:
        return f"{line}, and an update has {batches} batches as before; rounding and random numbers differ"
    same = ""
    if batches % now == 0:
        same = f"; training.accumulate={batches // now} with --allow-change keeps {batches}"
    return f"{line}, and an update has {now * accumulate} batches instead of {batches}, so the weights differ{same}"


@contextmanager
def explain_restoring(folder: Path) -> Iterator[None]:
    """Turn an error while a checkpoint's state is restored into one line.

    Raises InputError.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:  # somebody's state may be anything
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
    """Return groups of tensors on the CPU; every process calls it.

    `model`, `optimizer` (as `parameter name:key`), `average` with a moving average, and `carried-N` for each
    process with tensors for its next batch. They may share memory with the model.
    """
    groups = {"model": separate_tensors(model.state_dict()), "optimizer": {}}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            groups["optimizer"][f"{name}:{key}"] = value.detach().cpu()
    if average is not None:
        averaged = {id(parameter) for parameter in average.parameters}
        with average.use():
            groups["average"] = {
                name: parameter.detach().cpu().clone()
                for name, parameter in model.named_parameters()
                if id(parameter) in averaged
            }
    if carried is not None:
        carried = {name: tensor.cpu().contiguous() for name, tensor in carried.items()}
    for rank, tensors in enumerate(processes.gather(carried)):
        if tensors is not None:
            groups[f"carried-{rank}"] = tensors
    return groups


@torch.no_grad()
def load_weights(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors of a checkpoint into weights of the same names.

    Raises:
        InputError: A tensor is missing or has another shape.
    """
    for name, target in targets.items():
        shape = [*tensors[name].shape] if name in tensors else "nothing"
        if shape != [*target.shape]:
            raise InputError(
                f"{name}: the model has {list(target.shape)}, the checkpoint {shape}; is it of this model?"
            )
        target.copy_(tensors[name])
