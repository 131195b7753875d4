"""One update: gradients of a few batches on every process, summed, checked, clipped and applied."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW
from torch.optim.optimizer import Optimizer

from regard.errors import RunError
from regard.training.batches import Prepared
from regard.training.devices import choose_precision
from regard.training.objective import Carried
from regard.training.processes import Processes, exchanging
from regard.training.settings import Training
from regard.training.signals import SIGNALS, Stop
from regard.training.state import local


@dataclass(frozen=True)
class Outcome:
    """The outcome of an update, the same on every process.

    loss:   the mean loss per token of all batches of the update
    tokens: their number, the terms of the loss
    read:   how many tokens the model read
    norm:   of the gradient of that mean, before clipping
    stop:   the number of a signal that some process received, or 0
    late:   whether the first process wants a checkpoint, since the last one is long ago
    """

    loss: float
    tokens: int
    read: int
    norm: float
    stop: int
    late: bool = False

    @property
    def good(self) -> bool:
        """Whether loss and gradient were finite, so that the update was applied."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def make_optimizer(model: nn.Module, settings: Training) -> AdamW:
    """AdamW over the trainable parameters, in one fused step; only matrices decay."""
    trainable = [
        parameter for parameter in model.parameters() if parameter.requires_grad
    ]
    groups = [
        {
            "params": [parameter for parameter in trainable if parameter.ndim >= 2],
            "weight_decay": settings.weight_decay,
        },
        {
            "params": [parameter for parameter in trainable if parameter.ndim < 2],
            "weight_decay": 0.0,
        },
    ]
    groups = [group for group in groups if group["params"]]
    return AdamW(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )


class Updater:
    """Update the model in a `LossModule`, wrapped or not; the only place that handles gradients. `carried` is passed
    from batch to batch."""

    def __init__(
        self,
        losses: nn.Module,
        optimizer: Optimizer,
        settings: Training,
        here: Processes,
        stop: Stop,
    ) -> None:
        self.losses, self.optimizer, self.settings, self.here, self.stop = (
            losses,
            optimizer,
            settings,
            here,
            stop,
        )
        self.parameters = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        self.carried: Carried | None = None
        self._sharded = any(isinstance(each, DTensor) for each in self.parameters)
        self._exact = torch.float32 if here.device.type == "mps" else torch.float64

    def __call__(
        self, prepared: Sequence[Prepared], update: int, rate: float, late: bool = False
    ) -> Outcome:
        """Apply the gradients of an update's batches (the update is counted from 1) with a learning rate, unless loss
        or gradient is not finite. `late`, as the outcome's, is this process's clock.

        Raises:
            RunError: out of memory.
        """
        total, tokens, read = self._gradients(prepared, update)
        signal = (
            self.stop.requested
        )  # read as late as the other processes can still learn of it
        flags = [late and self.here.main, *(signal == each for each in SIGNALS)]
        summary = torch.tensor(
            [0.0, 0.0, tokens, read, *flags], dtype=self._exact, device=self.here.device
        )
        gradients = [
            local(parameter.grad)
            for parameter in self.parameters
            if parameter.grad is not None
        ]
        norm = nn.utils.get_total_norm(gradients)
        summary[0] = total
        summary[1] = (
            norm.square() if self._sharded else 0
        )  # each process has its part of the gradient
        self.here.sum(summary)
        loss, squared, count, seen, overdue, *received = summary.tolist()
        length = math.sqrt(squared) if self._sharded else norm.item()
        scale = self.here.count / max(
            1.0, count
        )  # the exchange has divided by the number of processes
        stop = next(
            (
                int(each)
                for each, processes in zip(SIGNALS, received, strict=True)
                if processes
            ),
            0,
        )
        outcome = Outcome(
            loss / max(1.0, count),
            int(count),
            int(seen),
            length * scale,
            stop,
            bool(overdue),
        )
        if outcome.good:
            self._apply(gradients, scale, outcome.norm, rate)
        else:
            self.carried = None  # it may not be finite either
        self.optimizer.zero_grad(set_to_none=True)
        return outcome

    def _gradients(
        self, prepared: Sequence[Prepared], update: int
    ) -> tuple[Tensor, int, int]:
        total, tokens, read = torch.zeros((), device=self.here.device), 0, 0
        bf16 = (
            choose_precision(self.settings.precision, self.here.device.type) == "bf16"
        )
        for number, item in enumerate(prepared, start=1):
            with (
                _memory(item, self.settings),
                exchanging(self.losses, number == len(prepared)),
            ):
                batch = item.batch.to(self.here.device)
                with torch.autocast(
                    self.here.device.type, torch.bfloat16, enabled=bf16
                ):
                    loss, count, self.carried, seen = self.losses(
                        batch, update, self.carried
                    )
                loss.backward()
            total += loss.detach()
            tokens, read = tokens + count, read + seen
        return total, tokens, read

    def _apply(
        self, gradients: list[Tensor], scale: float, norm: float, rate: float
    ) -> None:
        if self.settings.clip and norm > self.settings.clip:
            scale *= self.settings.clip / norm
        torch._foreach_mul_(gradients, scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


@contextmanager
def _memory(item: Prepared, settings: Training) -> Iterator[None]:
    """Turn a failed allocation into advice."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not out_of_memory(error):
            raise
        raise RunError(
            f"out of memory on a batch of {len(item.position.examples)} examples, the longest {longest(item.batch)}; "
            f"lower batch_tokens (now {settings.batch_tokens}) and raise accumulate (now {settings.accumulate}), "
            "or use bf16; checkpoints are untouched"
        ) from error


def out_of_memory(error: RuntimeError) -> bool:
    """Whether the error is a failed allocation, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(
        error
    )


def longest(batch: Any) -> int:
    """The largest second axis among a batch's tensors: its padded length."""
    parts = (
        [batch]
        if isinstance(batch, Tensor)
        else getattr(batch, "__dict__", {}).values()
    )
    return max(
        (part.shape[1] for part in parts if isinstance(part, Tensor) and part.ndim > 1),
        default=1,
    )
