"""Where a patch of an image stands: encodings that are added to embeddings that have rows and columns."""

from abc import ABC, abstractmethod

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.embeddings import sinusoids
from regard.shapes import Float, States


class GridPositions(nn.Module, ABC):
    """Adds its encoding to states `(batch, position, width)`: those of marks that stand nowhere, then those of the
    patches, row by row."""

    @abstractmethod
    def forward(self, states: States, rows: int, columns: int) -> States: ...


class SinusoidalGrid(GridPositions):
    """Half of the width tells the row, the other half the column, each as `sinusoids` do; of marks nothing."""

    def forward(self, states: States, rows: int, columns: int) -> States:
        width = states.shape[2]
        down = sinusoids(rows, width // 2)[:, None].expand(-1, columns, -1)
        along = sinusoids(columns, width - width // 2).expand(rows, -1, -1)
        encoding = torch.cat([down, along], -1).flatten(0, 1)
        marks = states.shape[1] - len(encoding)
        return states + functional.pad(encoding, (0, 0, marks, 0)).to(states)


class LearnedGrid(GridPositions):
    """One learned vector a mark, and one a patch of `side` x `side`. Of other grids they are interpolated by cubic
    splines (Dosovitskiy 2021, section 3.2)."""

    def __init__(self, marks: int, side: int, width: int):
        super().__init__()
        self.marks, self.side = marks, side
        self.table = nn.Parameter(torch.empty(marks + side * side, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states + self.encoding(rows, columns)

    def encoding(self, rows: int, columns: int) -> Float[Tensor, "position width"]:
        """Of the marks and of a grid of so many rows and columns."""
        if (rows, columns) == (self.side, self.side):
            return self.table
        marks, patches = self.table[: self.marks], self.table[self.marks :]
        grid = rearrange(patches, "(h w) d -> 1 d h w", h=self.side)
        grid = functional.interpolate(grid, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([marks, rearrange(grid, "1 d h w -> (h w) d")])
