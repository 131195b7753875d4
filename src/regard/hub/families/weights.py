"""Published tensors and the parameters they become: one table, in both directions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.errors import InputError, RunError
from regard.models.attention import ActivationName

ACTIVATIONS: Mapping[str, ActivationName] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Published activations; of several names for one the first is written."""
TEXT_TASKS = ("classification", "multi-label", "regression")
"""The tasks of published classifiers of texts."""


@dataclass(frozen=True)
class Part:
    """A published tensor and the parameters that it stacks along the first axis.

    `{}` stands for the number of a layer. A `transposed` weight is published as
    (in, out).
    """

    published: str
    ours: tuple[str, ...]
    transposed: bool = False


def linear(published: str, *ours: str, transposed: bool = False) -> tuple[Part, Part]:
    """Return the weight and bias of a linear map, or of several published as one."""
    weights = tuple(f"{name}.weight" for name in ours)
    biases = tuple(f"{name}.bias" for name in ours)
    return (
        Part(f"{published}.weight", weights, transposed),
        Part(f"{published}.bias", biases),
    )


class Family(ABC):
    """The published form of one of regard's models."""

    sizes: ClassVar[Mapping[str, str]]
    """The published key of each field of our configuration that has one."""
    fixed: ClassVar[Mapping[str, Any]]
    """Published keys with the only value that our model computes."""

    @abstractmethod
    def read_config(self, values: Any, architecture: str) -> Any:
        """Return our configuration for one of transformers and the name of its class.

        Raises:
            InputError: Our model does not compute it.
        """

    @abstractmethod
    def write_config(self, config: Any, task: str) -> dict[str, Any]:
        """Return config.json without labels for a configuration of ours and a task.

        Raises:
            InputError: No published model has such a value.
        """

    @abstractmethod
    def parts(self, config: Any, task: str) -> Sequence[Part]:
        """Return the table of weights of a model with the head of a task."""

    def to_ours(self, tensors: dict[str, Tensor], config: Any) -> dict[str, Tensor]:
        """Return parameters of tensors to which the table was applied."""
        return tensors

    def to_published(
        self, tensors: dict[str, Tensor], config: Any
    ) -> dict[str, Tensor]:
        """Return the tensors to which the table is applied."""
        return tensors

    def read_sizes(self, values: Any) -> dict[str, Any]:
        """Return the fields of our configuration that have a published key.

        Raises:
            InputError: A key of `fixed` has another value.
        """
        for key, value in self.fixed.items():
            if getattr(values, key, value) != value:
                raise InputError(f"{key} is {getattr(values, key)!r}")
        return {name: getattr(values, key) for name, key in self.sizes.items()}

    def write_sizes(self, config: Any) -> dict[str, Any]:
        """Return the published keys of fields of our configuration."""
        return {key: getattr(config, name) for name, key in self.sizes.items()}

    def read(
        self, weights: Mapping[str, Tensor], config: Any, task: str
    ) -> dict[str, Tensor]:
        """Return the parameters of our model for the tensors of a published one.

        Raises:
            RunError: Tensors are missing or unknown.
        """
        parameters = {}
        table = list(self._all_parts(config, task))
        names = weights.keys() ^ {part.published for part in table}
        if names:
            raise RunError(f"{min(names)} is missing or unknown")
        for part in table:
            tensor = weights[part.published]
            tensor = tensor.mT if part.transposed else tensor
            chunks = tensor.chunk(len(part.ours)) if len(part.ours) > 1 else [tensor]
            parameters |= dict(zip(part.ours, chunks, strict=True))
        return self.to_ours(parameters, config)

    def write(
        self, parameters: Mapping[str, Tensor], config: Any, task: str
    ) -> dict[str, Tensor]:
        """Return the tensors of a published model for the parameters of ours."""
        values = self.to_published(dict(parameters), config)
        weights = {}
        for part in self._all_parts(config, task):
            tensor = torch.cat([values[name] for name in part.ours])
            weights[part.published] = (
                tensor.mT.contiguous() if part.transposed else tensor
            )
        return weights

    def _all_parts(self, config: Any, task: str) -> Iterator[Part]:
        for part in self.parts(config, task):
            if "{}" not in part.published:
                yield part
                continue
            for number in range(config.layers):
                ours = tuple(name.format(number) for name in part.ours)
                yield Part(part.published.format(number), ours, part.transposed)


def read_activation(name: str) -> ActivationName:
    """Return our name of a published activation. Raise InputError for an unknown one."""
    if name not in ACTIVATIONS:
        raise InputError(f"the activation is {name}")
    return ACTIVATIONS[name]


def write_activation(name: ActivationName) -> str:
    """Return the published name of an activation."""
    return next(published for published, ours in ACTIVATIONS.items() if ours == name)


def require(config: Any, **published: Any) -> None:
    """Refuse a configuration of ours with values that no published model has.

    Raises:
        InputError: A field differs; `score`, `align` and `self_align` are checked too.
    """
    usual = {"score": "scaled-dot", "align": "softmax", "self_align": "softmax"}
    for key, value in {**usual, **published}.items():
        chosen = getattr(config, key, value)
        if chosen != value:
            raise InputError(
                f"model.{key} is {chosen!r}; published models have {value!r} only"
            )
