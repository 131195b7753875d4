"""What the training loop needs of an objective: lists of examples, batches made of them, a loss and a validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Batch(Protocol):
    """Whatever `Objective.batch` builds; the loop only moves it."""

    def to(self, device: torch.device, /) -> "Batch": ...


Carried = dict[str, Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss summed over its tokens; the loop divides by the tokens of the whole update, over all processes.

    total:   scalar tensor with a gradient
    tokens:  how many terms were summed (target tokens, as a rule)
    carried: tensors by name, without a gradient, that the next batch's loss is given; None where batches stand alone
    """

    total: Tensor
    tokens: int
    carried: Carried | None = None


@runtime_checkable
class Objective(Protocol):
    """A thing to learn: its examples, batches, loss and validation.

    `batches` and `batch` are pure functions of the objective's settings and their arguments: they draw from generators
    seeded by them, never from global random states. This is what makes a run independent of its number of workers and
    lets a resumed run see the same batches. `loss` may draw from the global states, which a checkpoint holds, and hand
    tensors on to its next call, which a checkpoint holds too, but keeps nothing itself: what else changes in the course
    of a run is a function of the update.
    """

    @property
    def metric(self) -> str:
        """The key of `validate`'s result that decides which weights are best."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether the best weights have the highest value of the metric."""
        ...

    def batches(self, epoch: int) -> list[list[int]]:
        """The epoch's batches as lists of example indices, in the order of training."""
        ...

    def batch(self, epoch: int, indices: list[int]) -> Any:
        """Builds one batch; may run in a worker process. What it returns has `.to(device)`."""
        ...

    def loss(self, model: nn.Module, batch: Any, update: int, carried: Carried | None) -> Loss:
        """The summed loss of a batch of the given update (counted from 1), in one call `model(...)`: the model may be
        wrapped for several processes, whose gradients meet through that call alone. `carried` is what the batch before
        handed on, in the same process; None at the start and where an update was left out."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Figures on held-out examples, `self.metric` among them. The model is not wrapped, is in evaluation mode and
        full precision, and no gradients are kept. With several processes each runs it, the first one's figures count.
        """
        ...


@runtime_checkable
class Placed(Protocol):
    """An objective that can also say where an example came from, as `file:line`, for error messages."""

    def place(self, index: int) -> str: ...


def origin(objective: object, indices: Sequence[int]) -> str:
    """The places of the given examples in brackets, or nothing where the objective does not know them."""
    if not isinstance(objective, Placed):
        return ""
    return f" ({', '.join(objective.place(index) for index in indices)})"
