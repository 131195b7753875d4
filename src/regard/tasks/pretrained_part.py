"""Parts of a model that are loaded from another trained run, named in the run file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.errors import InputError
from regard.storage.tensors import load_into

T = TypeVar("T", bound="PretrainedSource")


@dataclass(frozen=True)
class PretrainedPart:
    """A part of a model that is loaded from the run in `folder`, named in the run file at `key`. That run is of `task`,
    made by `command`. `has_sizes`: whether the run file has the sizes of the part already."""

    key: str
    folder: str
    task: str
    command: str
    has_sizes: bool

    def check(self, other: Any) -> None:
        """Raises InputError where `other`, the run file of that run, is of another task."""
        if other.task != self.task:
            raise InputError(
                f"{self.key}: {self.folder} is a run of the task {other.task}; expected one of {self.task}, as "
                f"{self.command} makes"
            )


class PretrainedSource(ABC):
    """A run file that may name such a part. Training copies the part into the run, which does not need the other folder
    afterwards."""

    @property
    @abstractmethod
    def pretrained_part(self) -> PretrainedPart | None:
        """The part that is loaded from another run; None without one."""

    @abstractmethod
    def with_sizes(self: T, other: Any) -> T:
        """This run file with the sizes of the part, from the run file `other` of that run."""


def load_parts(
    model: nn.Module, parts: Mapping[str, str], weights: Mapping[str, Tensor]
) -> None:
    """Load the parameters of some parts of a model from another run's weights.

    `parts` maps each part of the model to the prefix of its parameters in `weights`; parameters that are not there stay
    as they are. Raises InputError for weights that do not fit.
    """
    for name, prefix in parts.items():
        part = model.get_submodule(name)
        own = {each: prefix + each for each in part.state_dict()}
        load_into(
            part,
            {
                each: weights[source]
                for each, source in own.items()
                if source in weights
            },
        )
