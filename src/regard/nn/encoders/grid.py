"""An encoder of images: a grid of features that a decoder reads like the words of a sentence."""

from typing import TypeVar

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.grid_positions import LearnedGrid
from regard.shapes import Float

N = TypeVar("N", int, Tensor)


class GridEncoder(nn.Module):
    """Convolutions in stages that each halve both sides. The cells of the last stage are the memory, row by row, and
    their mean is its summary.

    Xu 2015 (1502.03044, section 3.1.1) uses the cells of a network that was trained on ImageNet; this one learns with
    its decoder. A cell sees its own part of the image and little more (15 x 15 pixels after three stages) and norms
    stay within a cell, so that attention weights can be read as locations. A learned vector encodes the position of
    each of `side` x `side` cells, which convolutions do not.
    """

    def __init__(self, channels: int, widths: tuple[int, ...], side: int):
        super().__init__()
        inner = (channels, *widths[:-1])
        self.stages = nn.Sequential(
            *(stage(*pair) for pair in zip(inner, widths, strict=True))
        )
        self.positions = LearnedGrid(0, side, widths[-1])
        self.memory_width = self.summary_width = widths[-1]

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        """Images `(batch, channel, height, width)` -> a memory of `(batch, cell, memory_width)`."""
        found = self.stages(
            images.contiguous(memory_format=torch.channels_last)
        )  # norms over channels need it
        cells = self.positions(
            rearrange(found, "b c h w -> b (h w) c"), *found.shape[-2:]
        )
        return Memory(cells, cells, summary=cells.mean(1))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of each cell of `(batch, channel, row, column)` over its channels."""

    def forward(
        self, input: Float[Tensor, "batch channel row column"]
    ) -> Float[Tensor, "batch channel row column"]:
        return rearrange(
            super().forward(rearrange(input, "b c h w -> b h w c")),
            "b h w c -> b c h w",
        )


def stage(before: int, width: int) -> nn.Sequential:
    """A 3 x 3 convolution that halves both sides, and a 1 x 1 convolution."""
    return nn.Sequential(
        *convolution(before, width, size=3), *convolution(width, width, size=1)
    )


def convolution(before: int, width: int, *, size: int) -> list[nn.Module]:
    """A convolution with its norm and nonlinearity. It has no bias because the norm has an offset."""
    weights = nn.Conv2d(
        before, width, size, stride=2 if size > 1 else 1, padding=size // 2, bias=False
    )
    nn.init.kaiming_normal_(weights.weight, nonlinearity="relu")
    return [weights, ChannelNorm(width), nn.ReLU()]


def cells_of(size: N, stages: int) -> N:
    """Cells along a side of `size` pixels after `stages` stages; of several sides if it is a tensor."""
    for _ in range(stages):
        size = (size + 1) // 2
    return size
