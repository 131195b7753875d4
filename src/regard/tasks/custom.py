"""Models and objectives of a user's own, which `regard.fit` trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from torch import Tensor, nn

from regard.errors import InputError
from regard.metrics import Metrics
from regard.storage.run_folder import RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.base import Setup
from regard.tasks.options import EvaluationOptions
from regard.tasks.run import Run, Task
from regard.training.objectives import Objective
from regard.training.settings import Training

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class CustomData:
    """The numbers of training and validation examples; the run file holds none of them."""

    train: int
    valid: int


@dataclass(frozen=True, kw_only=True)
class CustomModel:
    """The name of the model's class, for readers; a run folder never imports it."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Custom:
    """A run of `regard.fit`."""

    task: Literal["custom"] = "custom"
    data: CustomData
    model: CustomModel
    training: Training = field(default_factory=Training)


class CustomRun(Run[Any, Any]):
    """The weights and settings of a model whose class the run folder does not know."""

    supports = {"evaluate": ()}

    def __init__(
        self,
        config: Custom,
        folder: RunDirectory,
        model: nn.Module,
        objective: Objective | None = None,
    ):
        self.config = config
        self.folder = folder
        self.model = model
        self.objective = objective
        self.tensors: Mapping[str, Tensor] = {}
        """The weights, as long as the class of the model is unknown."""

    @classmethod
    def open(cls, folder: RunDirectory, config: Custom) -> "CustomRun":
        """Open the run in a folder; `restore` gives its weights to the user's model."""
        return cls(config, folder, nn.Module())

    def load_weights(
        self, tensors: Mapping[str, Tensor], *, allow_missing: bool = False
    ) -> None:
        self.tensors = dict(tensors)

    def restore(self, model: M, objective: Objective | None = None) -> M:
        """Load the run's weights into the user's own model, in evaluation mode.

        With an `objective` the run can evaluate.

        Raises:
            InputError: The model's parameters have other names or shapes.
        """
        load_into(model, self.tensors or self.model.state_dict())
        self.model = model.eval()
        self.tensors = {}
        self.objective = objective
        return model

    def _evaluate(self, examples: Any, options: EvaluationOptions) -> Metrics:
        if self.objective is None:
            place = "this run" if self.folder is None else self.folder.path
            raise InputError(
                f"{place}: holds the weights of a {self.config.model.name}, "
                "not its class; in Python: run.restore(model, objective).evaluate()"
            )
        if examples is not None:
            raise InputError(
                "the objective of a custom run has its own examples; pass none"
            )
        return self.objective.validate(self.model)


def setup(config: Custom, folder: RunDirectory, processes: int) -> Setup:
    """Raise InputError: a custom run is trained from Python only."""
    raise InputError(
        "a run of the task custom has its model and data in Python; train it with "
        "regard.fit"
    )


TASK = Task(Custom, setup, CustomRun)
