"""Objectives of training.

The protocol that the loop uses, and a supervised objective of a list of examples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from regard.data.batches import Batch as TensorBatch
from regard.data.batches import move
from regard.data.order import Shuffled
from regard.data.records import Frame, records_of
from regard.errors import InputError
from regard.work import compute_batches


@runtime_checkable
class Batch(Protocol):
    """The result of `Objective.batch`; the loop only moves it to a device."""

    def to(self, device: torch.device, /) -> "Batch": ...


Carried = dict[str, Tensor]


@dataclass(frozen=True)
class Loss:
    """A loss summed over its tokens.

    The loop divides by the tokens of the whole update, over all processes.
    """

    total: Tensor
    """A scalar with a gradient."""
    tokens: int
    """How many terms were summed: target tokens, as a rule."""
    carried: Carried | None = None
    """Tensors by name, without a gradient, for the loss of the next batch."""
    read: int = 0
    """How many tokens, images or steps the model read; 0: as many as `tokens`."""


@runtime_checkable
class Objective(Protocol):
    """A training objective: its examples, batches, loss and validation.

    `batches` and `batch` are pure functions of the objective's settings and their
    arguments, with generators seeded by them and never the global random states: so a
    run does not depend on its number of workers, and a resumed run has the same
    batches. `loss` may use the global random states and carry tensors to its next call,
    both of which a checkpoint saves; it keeps no other state. Whatever else changes
    during a run is a function of the update.
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
        """Return the epoch's batches as lists of example indices, in the order of training.

        A list, or an `Order` of data/order.py, which holds a chunk of a large set at a time.
        """
        ...

    def batch(self, epoch: int, indices: list[int]) -> Any:
        """Build one batch, which has `.to(device)`; may run in a worker process."""
        ...

    def loss(
        self,
        model: nn.Module,
        batch: Any,
        update: int,
        carried: Carried | None,
    ) -> Loss:
        """Return the summed loss of a batch at an update (counted from 1).

        It may call any part of the model (see `LossModule`). `carried` comes from the
        batch before, in the same process; None at the start and after an update that
        was skipped.
        """
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Metrics on held-out examples, `self.metric` among them.

        The model is in evaluation mode, in full precision and without gradients. Every
        process calls it; the first one's metrics count. Batches that it computes
        through `regard.work.computed` are divided among the processes.
        """
        ...


class LossModule(nn.Module):
    """From a batch to its loss in one call, of a model that computes logits and an objective that computes losses.

    DDP and FSDP exchange gradients of what happens within one call of the module that they wrap. They wrap this one, so
    an objective may call parts of the model, and a model's `forward` need not know of losses.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(
        self,
        batch: Any,
        update: int,
        carried: Carried | None,
    ) -> tuple[Tensor, int, Carried | None, int]:
        """Return the fields of a `Loss`.

        FSDP finds tensors in tuples, not in dataclasses.
        """
        loss = self.objective.loss(self.model, batch, update, carried)
        return loss.total, loss.tokens, loss.carried, loss.read or loss.tokens


@runtime_checkable
class HasLocations(Protocol):
    """An objective that also knows the origin of an example, as `file:line`, for error messages."""

    def place(self, index: int) -> str: ...


@runtime_checkable
class HasUnit(Protocol):
    """An objective that reads something else than tokens.

    `unit` names it in the plural.
    """

    unit: str


def unit_of(objective: object) -> str:
    """Return what the speed of a training counts."""
    return objective.unit if isinstance(objective, HasUnit) else "tokens"


def origin(objective: object, indices: Sequence[int]) -> str:
    """Return the origins of examples in brackets, or nothing where they are unknown."""
    if not isinstance(objective, HasLocations):
        return ""
    return f" ({', '.join(objective.place(index) for index in indices)})"


E = TypeVar("E")
Evaluate = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class Tensors(TensorBatch):
    """A batch as the collate function returned it: tensors in tuples, lists and dicts.

    The rest stays where it is.
    """

    content: Any
    examples: int


@dataclass(frozen=True, kw_only=True)
class Supervised(Generic[E]):
    """An objective of examples and a loss, for `regard.fit` and for tasks.

    Raises:
        InputError: There are no examples, or the batch size is below 1.
    """

    train: Sequence[E]
    """The examples; those of a data frame are its rows, a mapping each."""
    valid: Sequence[E]
    """The examples of the validation."""
    collate: Callable[[list[E]], Any]
    """Makes a batch of examples: tensors, or tuples, lists and dicts of tensors."""
    loss_of: Callable[[nn.Module, Any], Tensor]
    """`loss_of(model, batch)` is the mean loss, a scalar with a gradient."""
    batch_size: int = 32
    """Examples in a batch."""
    evaluate: Evaluate | None = None
    """Metrics of the model in evaluation mode. Default: the mean loss on `valid`."""
    metric: str = "loss"
    """The metric that chooses the best weights."""
    higher_is_better: bool = False
    seed: int = 1
    """The seed of the order of the examples."""

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
        """Return the order of the epoch, a function of seed and epoch only."""
        return Shuffled(len(self.train), self.batch_size, f"{self.seed} {epoch}")

    def batch(self, epoch: int, indices: list[int]) -> Tensors:
        """One batch; may run in a worker process."""
        examples = [self.train[index] for index in indices]
        return Tensors(self.collate(examples), len(indices))

    def loss(
        self,
        model: nn.Module,
        batch: Tensors,
        update: int,
        carried: Carried | None,
    ) -> Loss:
        """Return the loss of a batch, weighted by its size."""
        return Loss(self.loss_of(model, batch.content) * batch.examples, batch.examples)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the metrics that choose the best weights."""
        if self.evaluate is not None:
            return dict(self.evaluate(model))
        device = next(model.parameters()).device

        def loss(first: int) -> float:
            examples = list(self.valid[first : first + self.batch_size])
            batch = move(self.collate(examples), device)
            return self.loss_of(model, batch).item() * len(examples)

        starts = range(0, len(self.valid), self.batch_size)
        return {"loss": sum(compute_batches(loss, starts)) / len(self.valid)}
