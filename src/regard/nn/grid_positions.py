"""Position encodings of image patches, which have a row and a column."""

from abc import ABC, abstractmethod

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.embeddings import sinusoids
from regard.shapes import Float, States


class GridPositions(nn.Module, ABC):
    """Add an encoding to states `(batch, position, width)`. Tokens without a place, such as [CLS], come first; then the
    patches, row by row."""

    @abstractmethod
    def forward(self, states: States, rows: int, columns: int) -> States: ...


class SinusoidalGrid(GridPositions):
    """Sinusoids of the row in the first half of the width, of the column in the other half; zeros for tokens without a
    place."""

    def forward(self, states: States, rows: int, columns: int) -> States:
        width = states.shape[2]
        down = sinusoids(rows, width // 2)[:, None].expand(-1, columns, -1)
        along = sinusoids(columns, width - width // 2).expand(rows, -1, -1)
        encoding = torch.cat([down, along], -1).flatten(0, 1)
        marks = states.shape[1] - len(encoding)
        return states + functional.pad(encoding, (0, 0, marks, 0)).to(states)


class LearnedGrid(GridPositions):
    """One learned vector per token without a place and per patch of a `side` x `side` grid. For another grid they are
    interpolated by cubic splines (Dosovitskiy 2021, section 3.2)."""

    def __init__(self, marks: int, side: int, width: int):
        super().__init__()
        self.marks, self.side = marks, side
        self.table = nn.Parameter(torch.empty(marks + side * side, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states + self.encoding(rows, columns)

    def encoding(self, rows: int, columns: int) -> Float[Tensor, "position width"]:
        """The encoding for a grid of `rows` x `columns` patches."""
        if (rows, columns) == (self.side, self.side):
            return self.table
        marks, patches = self.table[: self.marks], self.table[self.marks :]
        grid = rearrange(patches, "(h w) d -> 1 d h w", h=self.side)
        grid = functional.interpolate(grid, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([marks, rearrange(grid, "1 d h w -> (h w) d")])
