"""One update.

Gradients of a few batches on every process, summed, checked, clipped and applied.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.optim.optimizer import Optimizer

from regard.errors import RunError
from regard.training.batches import Prepared
from regard.training.devices import choose_precision
from regard.training.objectives import Carried
from regard.training.processes import SIGNALS, Processes, Stop
from regard.training.settings import Training


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
        self.losses = losses
        self.optimizer = optimizer
        self.settings = settings
        self.processes = processes
        self.stop = stop
        self.parameters = [
            parameter
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        self.carried: Carried | None = None
        self._exact = torch.float32 if processes.device.type == "mps" else torch.float64

    def __call__(
        self,
        prepared: Sequence[Prepared],
        update: int,
        rate: float,
        late: bool = False,
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
            [0.0, tokens, read, *flags],
            dtype=self._exact,
            device=self.processes.device,
        )
        gradients = []
        for parameter in self.parameters:
            if parameter.grad is not None:
                gradients.append(parameter.grad.detach())
        norm = nn.utils.get_total_norm(gradients)
        summary[0] = total
        self.processes.sum(summary)
        loss, count, read_count, overdue, *received = summary.tolist()
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
            norm.item() * scale,
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
        self,
        prepared: Sequence[Prepared],
        update: int,
    ) -> tuple[Tensor, int, int]:
        total = torch.zeros((), device=self.processes.device)
        tokens = 0
        read = 0
        bf16 = (
            choose_precision(self.settings.precision, self.processes.device.type)
            == "bf16"
        )
        for number, item in enumerate(prepared, start=1):
            is_last = number == len(prepared)  # then the processes exchange gradients
            with (
                explain_memory(item, self.settings),
                self.losses.no_sync()
                if isinstance(self.losses, DistributedDataParallel) and not is_last
                else nullcontext(),
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
            tokens = tokens + count
            read = read + read_count
        return total, tokens, read

    def _apply(
        self,
        gradients: list[Tensor],
        scale: float,
        norm: float,
        rate: float,
    ) -> None:
        if self.settings.clip and norm > self.settings.clip:
            scale *= self.settings.clip / norm
        torch._foreach_mul_(gradients, scale)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


@contextmanager
def explain_memory(item: Prepared, settings: Training) -> Iterator[None]:
    """Turn a failed allocation into advice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        exhausted = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not exhausted and "can't allocate memory" not in str(error):
            raise
        raise RunError(
            f"out of memory on a batch of {len(item.position.examples)} examples, the longest {longest(item.batch)}; "
            f"lower batch_tokens (now {settings.batch_tokens}) and raise accumulate (now {settings.accumulate}), "
            "or use bf16; checkpoints are untouched"
        ) from error


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
