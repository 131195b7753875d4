"""One update.

Gradients of a few batches on every process, summed, checked, clipped and applied.
"""

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
from regard.training.objectives import Carried
from regard.training.processes import SIGNALS, Processes, Stop, sync_gradients
from regard.training.settings import Training
from regard.training.state import local_part


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update over all processes."""

    loss: float
    """The mean loss of all tokens."""
    tokens: int
    """The tokens of the loss."""
    read: int
    """The tokens that the model read."""
    norm: float
    """The norm of the gradient of that mean, before clipping."""
    stop: int
    """The number of a signal that a process received, or 0."""
    late: bool = False
    """Whether the first process wants a checkpoint, since the last is long ago."""

    @property
    def good(self) -> bool:
        """Whether loss and gradient were finite, so that the update was applied."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def build_optimizer(model: nn.Module, settings: Training) -> AdamW:
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
    """Update the model in a `LossModule`, wrapped or not.

    The only place that handles gradients. `carried` is passed from batch to batch.
    """

    def __init__(
        self,
        losses: nn.Module,
        optimizer: Optimizer,
        settings: Training,
        processes: Processes,
        stop: Stop,
    ) -> None:
        self.losses, self.optimizer, self.settings, self.processes, self.stop = (
            losses,
            optimizer,
            settings,
            processes,
            stop,
        )
        self.parameters = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        self.carried: Carried | None = None
        self._sharded = any(isinstance(tensor, DTensor) for tensor in self.parameters)
        self._exact = torch.float32 if processes.device.type == "mps" else torch.float64

    def __call__(
        self, prepared: Sequence[Prepared], update: int, rate: float, late: bool = False
    ) -> UpdateResult:
        """Apply the gradients of an update's batches, unless they are not finite.

        Args:
            prepared: The batches.
            update: The update, counted from 1.
            rate: The learning rate.
            late: Whether this process's clock asks for a checkpoint.

        Raises:
            RunError: Memory is exhausted.
        """
        total, tokens, read = self._gradients(prepared, update)
        signal = (
            self.stop.requested
        )  # read as late as the other processes can still learn of it
        flags = [
            late and self.processes.main,
            *(signal == tensor for tensor in SIGNALS),
        ]
        summary = torch.tensor(
            [0.0, 0.0, tokens, read, *flags],
            dtype=self._exact,
            device=self.processes.device,
        )
        gradients = [
            local_part(parameter.grad)
            for parameter in self.parameters
            if parameter.grad is not None
        ]
        norm = nn.utils.get_total_norm(gradients)
        summary[0] = total
        summary[1] = (
            norm.square() if self._sharded else 0
        )  # each process has its part of the gradient
        self.processes.sum(summary)
        loss, squared, count, read_count, overdue, *received = summary.tolist()
        length = math.sqrt(squared) if self._sharded else norm.item()
        scale = self.processes.count / max(
            1.0, count
        )  # the exchange has divided by the number of processes
        stop = next(
            (
                int(tensor)
                for tensor, processes in zip(SIGNALS, received, strict=True)
                if processes
            ),
            0,
        )
        outcome = UpdateResult(
            loss / max(1.0, count),
            int(count),
            int(read_count),
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
        total, tokens, read = torch.zeros((), device=self.processes.device), 0, 0
        bf16 = (
            choose_precision(self.settings.precision, self.processes.device.type)
            == "bf16"
        )
        for number, item in enumerate(prepared, start=1):
            with (
                _memory(item, self.settings),
                sync_gradients(self.losses, number == len(prepared)),
            ):
                batch = item.batch.to(self.processes.device)
                with torch.autocast(
                    self.processes.device.type, torch.bfloat16, enabled=bf16
                ):
                    loss, count, self.carried, read_count = self.losses(
                        batch, update, self.carried
                    )
                loss.backward()
            total += loss.detach()
            tokens, read = tokens + count, read + read_count
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
    """Return whether the error is a failed allocation, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(
        error
    )


def longest(batch: Any) -> int:
    """Return the largest second axis among a batch's tensors: its padded length."""
    parts = (
        [batch]
        if isinstance(batch, Tensor)
        else getattr(batch, "__dict__", {}).values()
    )
    return max(
        (part.shape[1] for part in parts if isinstance(part, Tensor) and part.ndim > 1),
        default=1,
    )
