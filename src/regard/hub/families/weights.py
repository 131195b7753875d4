"""Published tensors and the parameters they become: one table, in both directions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

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
"""Our names of published activations."""
PUBLISHED_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu-tanh": "gelu_new",
    "relu": "relu",
    "silu": "silu",
}
Keys = dict[str, Any]
"""Keys of a configuration and their values."""
TEXT_TASKS = ("classification", "multi-label", "regression")
"""The tasks of published classifiers of texts."""


@dataclass(frozen=True)
class PublishedTensor:
    """A published tensor and the parameters that it stacks along the first axis.

    Attributes:
        published: Its name, with `{}` for the number of a layer.
        ours: The names of the parameters.
        transposed: Whether a weight is published as (in, out).
        shape: The published shape, if the parameter has other axes.
    """

    published: str
    ours: tuple[str, ...]
    transposed: bool = False
    shape: tuple[int, ...] = ()


def linear(
    published: str, *ours: str, transposed: bool = False
) -> tuple[PublishedTensor, PublishedTensor]:
    """Return the weight and bias of a linear map, or of several published as one."""
    weights = tuple(f"{name}.weight" for name in ours)
    biases = tuple(f"{name}.bias" for name in ours)
    return (
        PublishedTensor(f"{published}.weight", weights, transposed),
        PublishedTensor(f"{published}.bias", biases),
    )


def linears(names: Mapping[str, str]) -> list[PublishedTensor]:
    """Return the weights and biases of linear maps or norms, by their published names."""
    return [
        part for published, ours in names.items() for part in linear(published, ours)
    ]


@dataclass(frozen=True)
class Family:
    """The published form of one of regard's models.

    Attributes:
        config: The class of our configuration.
        sizes: The published key of each field of ours that has one.
        fixed: Published keys with the only value that our model computes.
        read: Returns further fields of ours for a configuration of transformers and the
            name of its class; raises InputError if our model does not compute it.
        write: Returns further keys of config.json, without labels, for a configuration
            of ours and a task; raises InputError if no published model is like it.
        parts: Returns the table of weights of a model with the head of a task.
    """

    config: type
    sizes: Mapping[str, str]
    fixed: Mapping[str, Any]
    read: Callable[[Any, str], Keys]
    write: Callable[[Any, str], Keys]
    parts: Callable[[Any, str], Sequence[PublishedTensor]]

    def read_config(self, values: Any, architecture: str) -> Any:
        """Return our configuration for one of transformers.

        Raises:
            InputError: Our model does not compute it.
        """
        for key, value in self.fixed.items():
            if getattr(values, key, value) != value:
                raise InputError(f"{key} is {getattr(values, key)!r}")
        sizes = {name: getattr(values, key) for name, key in self.sizes.items()}
        return self.config(**sizes, **self.read(values, architecture))

    def write_config(self, config: Any, task: str) -> Keys:
        """Return the keys of config.json for a configuration of ours and a task.

        Raises:
            InputError: No published model has such a value.
        """
        sizes = {key: getattr(config, name) for name, key in self.sizes.items()}
        return {**self.fixed, **sizes, **self.write(config, task)}

    def read_weights(
        self, weights: Mapping[str, Tensor], model: nn.Module, config: Any, task: str
    ) -> dict[str, Tensor]:
        """Return the parameters of our model for the tensors of a published one.

        Raises:
            RunError: Tensors are missing or unknown.
        """
        table = list(self.list_parts(config, task))
        if names := weights.keys() ^ {part.published for part in table}:
            raise RunError(f"{min(names)} is missing or unknown")
        state = model.state_dict()
        parameters = {}
        names_by_storage = {}
        for part in table:
            tensor = weights[part.published]
            tensor = tensor.mT if part.transposed else tensor
            if part.shape:
                tensor = tensor.reshape(state[part.ours[0]].shape)
            chunks = tensor.chunk(len(part.ours))
            parameters |= dict(zip(part.ours, chunks, strict=True))
        for name in parameters.keys() & state.keys():
            names_by_storage[state[name].data_ptr()] = name
        for name, tensor in state.items():  # tied weights have several names
            if name not in parameters and tensor.data_ptr() in names_by_storage:
                parameters[name] = parameters[names_by_storage[tensor.data_ptr()]]
        return parameters

    def write_weights(
        self, parameters: Mapping[str, Tensor], config: Any, task: str
    ) -> dict[str, Tensor]:
        """Return the tensors of a published model for the parameters of ours."""
        weights = {}
        for part in self.list_parts(config, task):
            tensor = torch.cat([parameters[name] for name in part.ours])
            tensor = tensor.mT.contiguous() if part.transposed else tensor
            weights[part.published] = tensor.reshape(part.shape or tensor.shape)
        return weights

    def list_parts(self, config: Any, task: str) -> Iterator[PublishedTensor]:
        """Return the table of weights with the parts of each layer."""
        for part in self.parts(config, task):
            layers = range(config.layers if "{}" in part.published else 1)
            for layer in layers:
                ours = tuple(name.format(layer) for name in part.ours)
                published = part.published.format(layer)
                yield PublishedTensor(published, ours, part.transposed, part.shape)


def read_activation(name: str) -> ActivationName:
    """Return our name of a published activation. Raise InputError for an unknown one."""
    if name not in ACTIVATIONS:
        raise InputError(f"the activation is {name}")
    return ACTIVATIONS[name]


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
