"""The protocol of an objective: lists of examples, batches, a loss and a validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Batch(Protocol):
    """The result of `Objective.batch`; the loop only moves it to a device."""

    def to(self, device: torch.device, /) -> "Batch": ...


Carried = dict[str, Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss summed over its tokens; the loop divides by the tokens of the whole update, over all processes.

    total:   scalar tensor with a gradient
    tokens:  how many terms were summed (target tokens, as a rule)
    read:    how many tokens, images or steps the model read, for the speed; 0: as many as `tokens`
    carried: tensors by name, without a gradient, for the loss of the next batch; None where batches are independent
    """

    total: Tensor
    tokens: int
    carried: Carried | None = None
    read: int = 0


@runtime_checkable
class Objective(Protocol):
    """A training objective: its examples, batches, loss and validation.

    `batches` and `batch` are pure functions of the objective's settings and their arguments, with generators seeded by
    them and never the global random states: so a run does not depend on its number of workers, and a resumed run has
    the same batches. `loss` may use the global random states and carry tensors to its next call, both of which a
    checkpoint saves; it keeps no other state. Whatever else changes during a run is a function of the update.
    """

    @property
    def metric(self) -> str:
        """The key of `validate`'s result that selects the best weights."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether the best weights have the highest value of the metric."""
        ...

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """The epoch's batches as lists of example indices, in the order of training: a list, or an `Order` of
        data/order.py, which holds a chunk of a large set at a time."""
        ...

    def batch(self, epoch: int, indices: list[int]) -> Any:
        """Build one batch, which has `.to(device)`; may run in a worker process."""
        ...

    def loss(
        self, model: nn.Module, batch: Any, update: int, carried: Carried | None
    ) -> Loss:
        """The summed loss of a batch at an update (counted from 1). It may call any part of the model (see
        `LossModule`). `carried` comes from the batch before, in the same process; None at the start and after an update
        that was skipped."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Metrics on held-out examples, `self.metric` among them. The model is in evaluation mode, in full precision
        and without gradients. Every process calls it; the first one's metrics count. Batches that it computes through
        `regard.work.computed` are divided among the processes."""
        ...


class LossModule(nn.Module):
    """From a batch to its loss in one call, of a model that computes logits and an objective that computes losses.

    DDP and FSDP exchange gradients of what happens within one call of the module that they wrap. They wrap this one, so
    an objective may call parts of the model, and a model's `forward` need not know of losses.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(
        self, batch: Any, update: int, carried: Carried | None
    ) -> tuple[Tensor, int, Carried | None, int]:
        """The fields of a `Loss`: FSDP finds tensors in tuples, not in dataclasses."""
        loss = self.objective.loss(self.model, batch, update, carried)
        return loss.total, loss.tokens, loss.carried, loss.read or loss.tokens


@runtime_checkable
class Placed(Protocol):
    """An objective that also knows the origin of an example, as `file:line`, for error messages."""

    def place(self, index: int) -> str: ...


@runtime_checkable
class Counted(Protocol):
    """An objective that reads something else than tokens; `unit` names it in the plural."""

    unit: str


def unit_of(objective: object) -> str:
    """What the speed of a training counts."""
    return objective.unit if isinstance(objective, Counted) else "tokens"


def origin(objective: object, indices: Sequence[int]) -> str:
    """The origins of examples in brackets, or nothing where the objective does not know them."""
    if not isinstance(objective, Placed):
        return ""
    return f" ({', '.join(objective.place(index) for index in indices)})"
