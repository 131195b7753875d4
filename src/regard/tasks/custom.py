"""Models and objectives of a user's own, which `regard.fit` trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from torch import Tensor, nn

from regard.errors import InputError
from regard.storage.run_folder import WEIGHTS, RunDirectory
from regard.storage.tensors import load_into
from regard.tasks.base import Setup
from regard.tasks.options import EvaluationOptions
from regard.tasks.run import Run
from regard.tasks.task import LazyTask
from regard.training.objectives import Objective
from regard.training.settings import Training

TASK = LazyTask(__name__, ":Custom", ":setup", ":CustomRun")


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


M = TypeVar("M", bound=nn.Module)


class CustomRun(Run[Any, Any]):
    """The weights and settings of a model whose class the run folder does not know."""

    supports = {"evaluate": frozenset()}

    def __init__(
        self,
        config: Custom,
        folder: RunDirectory,
        model: nn.Module,
        objective: Objective | None = None,
    ):
        self.config, self.folder, self.model, self.objective = (
            config,
            folder,
            model,
            objective,
        )
        self.tensors: Mapping[str, Tensor] = {}

    @classmethod
    def open(cls, folder: RunDirectory, config: Custom) -> "CustomRun":
        """Return the run in a folder.

        Its model holds the weights by their names; `restore` gives them to the user's
        own.
        """
        return cls(config, folder, Weights({}))

    def load_weights(
        self, tensors: Mapping[str, Tensor], *, allow_missing: bool = False
    ) -> None:
        self.model, self.tensors = Weights(tensors), tensors

    def restore(self, model: M, objective: Objective | None = None) -> M:
        """Return the user's own model with the run's weights, in evaluation mode.

        With an `objective` the run can evaluate.

        Raises:
            InputError: the model's parameters have other names or shapes.
        """
        load_into(model, self.tensors or self.folder.load_tensors(WEIGHTS))
        self.model, self.objective = model.eval(), objective
        return model

    def parse(self, line: str, place: str = "text 1") -> str:
        """Return the line itself."""
        return line

    def _evaluate(
        self, examples: Sequence[Any] | None, options: EvaluationOptions
    ) -> dict[str, float]:
        if self.objective is None or isinstance(self.model, Weights):
            raise InputError(
                f"{self.folder.path}: holds the weights of a {self.config.model.name}, not its class; in Python: "
                "run.restore(model, objective).evaluate()"
            )
        if examples is not None:
            raise InputError(
                "the objective of a custom run has its own examples; pass none"
            )
        return self.objective.validate(self.model)


class Weights(nn.Module):
    """Tensors by their names, for an unknown class of model."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, value in tensors.items():
            module: nn.Module = self
            *parts, last = name.split(".")
            for part in parts:
                if part not in dict(module.named_children()):
                    module.add_module(part, nn.Module())
                module = module.get_submodule(part)
            module.register_buffer(last, value)

    def forward(self) -> None:
        """Raise InputError: there is nothing to call."""
        raise InputError(
            "the model's class is not in the run folder; give your own to run.restore(model)"
        )


def setup(config: Custom, folder: RunDirectory, processes: int) -> Setup:
    """Raise InputError: a custom run is trained from Python only."""
    raise InputError(
        "a run of the task custom has its model and data in Python; train it with regard.fit"
    )
