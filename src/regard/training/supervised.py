"""An objective of a list of examples, a collate function and a loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from regard.data.memory import Frame, records_of
from regard.data.order import Shuffled
from regard.errors import InputError
from regard.training.objective import Carried, Loss
from regard.work import computed

E = TypeVar("E")
Evaluate = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class Tensors:
    """A batch as the collate function returned it: tensors in tuples, lists and dicts; the rest stays where it is."""

    content: Any
    examples: int

    def to(self, device: torch.device) -> "Tensors":
        """The batch on another device."""
        return Tensors(moved(self.content, device), self.examples)


def moved(value: Any, device: torch.device) -> Any:
    """The value with all tensors in it on `device`."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: moved(each, device) for key, each in value.items()}
    if isinstance(value, tuple) and type(value) is not tuple:  # a named tuple
        return type(value)(*(moved(each, device) for each in value))
    return (
        type(value)(moved(each, device) for each in value)
        if isinstance(value, tuple | list)
        else value
    )


@dataclass(frozen=True, kw_only=True)
class Supervised(Generic[E]):
    """Learn from examples by a loss, for `regard.fit` and for tasks. An `Objective` of training/objective.py.

    train, valid: the examples. Those of a data frame are its rows, a mapping each.
    collate: makes a batch of some examples: tensors, or tuples, lists and dicts of tensors.
    loss_of: `loss_of(model, batch)` gives the mean loss of a batch, a scalar with a gradient, in one call of the model.
    batch_size: examples in a batch.
    evaluate: metrics of the model on data of its own, in evaluation mode without gradients. Default: the mean loss on
        `valid`, as `loss`.
    metric, higher_is_better: the metric that chooses the best weights.
    seed: of the order of the examples.

    Raises InputError for empty examples or a batch size below 1.
    """

    train: Sequence[E]
    valid: Sequence[E]
    collate: Callable[[list[E]], Any]
    loss_of: Callable[[nn.Module, Any], Tensor]
    batch_size: int = 32
    evaluate: Evaluate | None = None
    metric: str = "loss"
    higher_is_better: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        for name, examples in (("train", self.train), ("valid", self.valid)):
            if isinstance(examples, Frame):
                object.__setattr__(self, name, records_of(examples))
        if not len(self.train) or not (len(self.valid) or self.evaluate):
            raise InputError(
                f"{len(self.train)} examples to train on, {len(self.valid)} to validate on; expected some"
            )
        if self.batch_size < 1:
            raise InputError(f"batch_size is {self.batch_size}; expected at least 1")

    def batches(self, epoch: int) -> Sequence[list[int]]:
        """The order of the epoch, a function of seed and epoch only."""
        return Shuffled(len(self.train), self.batch_size, f"{self.seed} {epoch}")

    def batch(self, epoch: int, indices: list[int]) -> Tensors:
        """One batch; may run in a worker process."""
        return Tensors(
            self.collate([self.train[index] for index in indices]), len(indices)
        )

    def loss(
        self, model: nn.Module, batch: Tensors, update: int, carried: Carried | None
    ) -> Loss:
        """The loss of a batch, weighted by its size."""
        return Loss(self.loss_of(model, batch.content) * batch.examples, batch.examples)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The metrics that choose the best weights."""
        if self.evaluate is not None:
            return dict(self.evaluate(model))
        device = next(model.parameters()).device

        def loss(first: int) -> float:
            examples = list(self.valid[first : first + self.batch_size])
            return self.loss_of(
                model, moved(self.collate(examples), device)
            ).item() * len(examples)

        return {
            "loss": sum(computed(loss, range(0, len(self.valid), self.batch_size)))
            / len(self.valid)
        }
