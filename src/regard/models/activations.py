"""Activations of feed-forward networks by name, for configurations."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from torch import nn

ActivationName = Literal["gelu", "gelu-tanh", "relu", "silu"]
ACTIVATIONS: Mapping[ActivationName, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu-tanh": partial(nn.GELU, approximate="tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}
"""Activations between the two maps of a layer; gelu-tanh is the approximation of gelu with tanh."""
