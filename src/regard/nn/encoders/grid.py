"""An image as a grid of features, which a decoder reads as it would the words of a sentence."""

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.grid_positions import LearnedGrid
from regard.shapes import Float


class GridEncoder(nn.Module):
    """Convolutions in stages, each of which halves both sides; the cells of the last are the memory, row by row, and
    their mean is its summary.

    Xu 2015 (1502.03044, section 3.1.1) reads the cells of a network that was trained on ImageNet. This one learns with
    its decoder. It is made so that a weight says something: a cell sees its own part of the image and little more, of
    three stages 15 x 15 pixels, and norms stay within a cell. A learned vector tells each of `side` x `side` cells
    where it is, which convolutions do not.
    """

    def __init__(self, channels: int, widths: tuple[int, ...], side: int):
        super().__init__()
        inner = (channels, *widths[:-1])
        self.stages = nn.Sequential(*(stage(*pair) for pair in zip(inner, widths, strict=True)))
        self.positions = LearnedGrid(0, side, widths[-1])
        self.memory_width = self.summary_width = widths[-1]

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Memory:
        """Images `(batch, channel, height, width)` -> a memory of `(batch, cell, memory_width)`."""
        found = self.stages(images.contiguous(memory_format=torch.channels_last))  # what norms over channels want
        cells = self.positions(rearrange(found, "b c h w -> b (h w) c"), *found.shape[-2:])
        return Memory(cells, cells, summary=cells.mean(1))


class ChannelNorm(nn.LayerNorm):
    """Each cell `(batch, channel, row, column)` normalised over its channels, by itself."""

    def forward(self, input: Float[Tensor, "batch channel row column"]) -> Float[Tensor, "batch channel row column"]:
        return rearrange(super().forward(rearrange(input, "b c h w -> b h w c")), "b h w c -> b c h w")


def stage(before: int, width: int) -> nn.Sequential:
    """A convolution of 3 x 3 that halves both sides, and one of each cell alone."""
    return nn.Sequential(*convolution(before, width, size=3), *convolution(width, width, size=1))


def convolution(before: int, width: int, *, size: int) -> list[nn.Module]:
    """With its norm, which has an offset already, and its nonlinearity."""
    weights = nn.Conv2d(before, width, size, stride=2 if size > 1 else 1, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(weights.weight, nonlinearity="relu")
    return [weights, ChannelNorm(width), nn.ReLU()]


def cells_of(size: int, stages: int) -> int:
    """How many cells a side of so many pixels has after so many stages."""
    for _ in range(stages):
        size = (size + 1) // 2
    return size
