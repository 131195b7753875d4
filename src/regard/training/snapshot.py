"""Checkpoints: the state of training as JSON and tensors, and back."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pydantic
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import Optimizer

from regard.data.order import Mark
from regard.errors import InputError, RunError
from regard.training.batches import Position, Start
from regard.training.objective import Carried
from regard.training.processes import Processes
from regard.training.schedules import Plateau
from regard.training.selection import MovingAverage, Selection
from regard.training.state import (
    assign,
    full,
    optimizer_tensors,
    random_state,
    restore_random_state,
    seed_everything,
    weights,
)


@dataclass
class Counters:
    """The counters of a run; `epoch` and `index` are the position of the next batch, `chunk` and `before` a mark in the
    epoch's order at or before it, `seconds` exclude interruptions."""

    update: int = 0
    epoch: int = 0
    index: int = 0
    chunk: int = 0
    before: int = 0
    bad: int = 0
    tokens: int = 0
    seconds: float = 0.0
    updating: float = 0.0
    validated: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def start(self) -> Start:
        """The place of the next batch."""
        return self.epoch, self.index, Mark(self.chunk, self.before)

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

    def to_json(self, here: Processes, carries: bool) -> dict[str, Any]:
        """Plain JSON values, with the random states of all processes and whether each carries tensors to its next
        batch; every process calls it."""
        return {
            "counters": asdict(self.counters),
            "selection": self.selection.state(),
            "plateau": asdict(self.plateau),
            "processes": here.count,
            "random": here.gather(random_state(here.device)),
            "carries": here.gather(carries),
        }

    @classmethod
    def restore(cls, state: dict[str, Any], here: Processes) -> "TrainingState":
        """The training state that `state` was written from. With another number of processes training continues behind
        the batches that were read, with the next one that the processes share out."""
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
        counters.index = -(-counters.index * state["processes"] // here.count)
        return restored


def regrouped(state: dict[str, Any], now: int, accumulate: int) -> str:
    """What another number of processes than that of a checkpoint's `state` changes, in a line."""
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


def restore_random(saved: Sequence[dict[str, Any]], here: Processes, seed: int) -> None:
    """Restore the random states of this process; a process more than before is seeded with its rank added to `seed`."""
    if here.rank < len(saved):
        restore_random_state(saved[here.rank], here.device)
    else:
        seed_everything(seed + here.rank)


@contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """Turn an error while a checkpoint's state is restored into one line. Raises InputError."""
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
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise InputError(
            f"{folder}: its training state cannot be restored, though its SHA-256 is right ({what}); was it changed? "
            "Remove this folder to resume from the checkpoint before"
        ) from error


def snapshot(
    model: nn.Module,
    optimizer: Optimizer,
    average: MovingAverage | None,
    carried: Carried | None,
    here: Processes,
) -> dict[str, dict[str, Tensor]]:
    """Groups of tensors: `model`, `optimizer`, `average` with a moving average, and `carried-N` for each process with
    tensors for its next batch. They are whole and on the CPU, or where weights are sharded this process's part and
    its own `carried-N`. Every process calls it; the tensors may share memory with the model."""
    sharded = any(isinstance(each, DTensor) for each in model.parameters())
    form: Callable[[Tensor], Tensor] = torch.detach if sharded else full
    groups = {
        "model": weights(model, form),
        "optimizer": optimizer_tensors(model, optimizer, form),
    }
    if average is not None:
        groups["average"] = average_tensors(model, average, form)
    own = (
        None
        if carried is None
        else {name: tensor.cpu().contiguous() for name, tensor in carried.items()}
    )
    for rank, each in [(here.rank, own)] if sharded else enumerate(here.gather(own)):
        if each is not None:
            groups[f"carried-{rank}"] = each
    return groups


def average_tensors(
    model: nn.Module, average: MovingAverage, form: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """The moving average by parameter names."""
    with average.applied():
        averaged = {id(parameter) for parameter in average.parameters}
        return {
            name: form(each).clone()
            for name, each in model.named_parameters()
            if id(each) in averaged
        }


def load_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load weights into the model, sharded or not.

    Raises:
        InputError: a tensor is missing or has another shape.
    """
    for name, target in model.state_dict().items():
        if name not in tensors or tensors[name].shape != target.shape:
            found = list(tensors[name].shape) if name in tensors else "nothing"
            raise InputError(
                f"{name}: the model has {list(target.shape)}, the checkpoint {found}; is it of this model?"
            )
        assign(target, tensors[name])


def load_average(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Load a moving average into the model's parameters."""
    parameters = dict(model.named_parameters())
    for name, value in tensors.items():
        assign(parameters[name], value)
