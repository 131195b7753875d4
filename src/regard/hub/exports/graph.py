"""One ONNX graph: a module over tensors only, with example inputs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

LONGEST = 4096
"""The maximum of positions in a graph whose model has no limit."""
Inputs = tuple[Tensor, ...]
BATCH, ROWS = {0: "batch"}, {0: "batch", 1: "position"}
SOURCE = {0: "batch", 1: "source_position"}
"""Names of the dynamic axes."""


@dataclass(frozen=True)
class Graph:
    """A module and the `name` of its file. `axes` are the dynamic axes of each input, with up to `most` positions.
    `example` makes inputs from a number of texts and a number of positions. Of a graph with a cache, the inputs
    behind the first `fixed` are its keys and values; its axes may have any size, and one is the sum of two."""

    name: str
    module: nn.Module
    axes: dict[str, dict[int, str]]
    outputs: tuple[str, ...]
    example: Callable[[int, int], Inputs]
    most: int
    fixed: int | None = None


def example_ids(texts: int, positions: int, vocabulary: int) -> Tensor:
    """Return distinct ids as far as the vocabulary reaches."""
    return torch.arange(texts * positions).view(texts, positions) % vocabulary


def example_mask(texts: int, positions: int) -> Tensor:
    """Return a mask of texts of which the last is the shortest."""
    lengths = positions - torch.arange(texts) % positions
    return (torch.arange(positions) < lengths[:, None]).long()


def example_numbers(*shape: int, first: float = -1.0) -> Tensor:
    """Return numbers between -1 and 1 of this shape, none twice in a row."""
    size = 1
    for each in shape:
        size *= each
    return torch.linspace(first, -first, size).sin().view(shape)
