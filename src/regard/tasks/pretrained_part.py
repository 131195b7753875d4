"""What a model takes from another, trained run, whose folder its run file names."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from regard.errors import InputError
from regard.storage.tensors import load_into

T = TypeVar("T", bound="Taking")


@dataclass(frozen=True)
class Taken:
    """A part of a model, taken from the run in `folder`, which the run file names at `key`: one of `task`, as the
    command `made` makes it. `sized` says whether the run file has the sizes of the part already."""

    key: str
    folder: str
    task: str
    made: str
    sized: bool

    def check(self, other: Any) -> None:
        """Raises InputError where `other`, the run file of that run, is one of another task."""
        if other.task != self.task:
            raise InputError(
                f"{self.key}: {self.folder} is a run of the task {other.task}; expected one of {self.task}, as "
                f"{self.made} makes"
            )


class Taking(ABC):
    """A part of a run file. What is taken is looked up when training begins and kept with the run, which is whole
    without the other folder from then on."""

    @property
    @abstractmethod
    def taken(self) -> Taken | None:
        """What the model takes from another run, if it does."""

    @abstractmethod
    def with_sizes(self: T, other: Any) -> T:
        """With all that the run file of that run, `other`, says of the part."""


def fill_in(model: nn.Module, parts: Mapping[str, str], weights: Mapping[str, Tensor]) -> None:
    """Give parts of a model, by their names, the weights of another run, as many as the part has. In that run its names
    have another beginning, which is the value. Raises InputError for weights that do not fit."""
    for name, beginning in parts.items():
        part = model.get_submodule(name)
        own = {each: beginning + each for each in part.state_dict()}
        load_into(part, {each: weights[given] for each, given in own.items() if given in weights})
