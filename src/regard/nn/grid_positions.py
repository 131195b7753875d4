"""Position encodings of image patches, which have a row and a column."""

from abc import ABC, abstractmethod

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.positions import RelativePositions, Rotary, counted
from regard.nn.embeddings import sinusoids
from regard.shapes import Float, Int, States

COLUMNS = 1 << 12
"""More than the columns of any grid: the place of a cell is row * COLUMNS + column."""


class GridPositions(nn.Module, ABC):
    """Add an encoding to states `(batch, position, width)`. Tokens without a place, such as [CLS], come first; then the
    patches, row by row."""

    @abstractmethod
    def forward(self, states: States, rows: int, columns: int) -> States: ...


class NoGrid(GridPositions):
    """Return the states unchanged."""

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states


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
        grid = functional.interpolate(
            grid, (rows, columns), mode="bicubic", align_corners=False
        )
        return torch.cat([marks, rearrange(grid, "1 d h w -> (h w) d")])


def places(
    marks: int, rows: int, columns: int, device: torch.device
) -> Int[Tensor, " position"]:
    """The places of cells row by row, behind tokens that stand where the first cell stands."""
    down, along = (
        torch.arange(rows, device=device) * COLUMNS,
        torch.arange(columns, device=device),
    )
    return functional.pad((down[:, None] + along).flatten(), (marks, 0))


class AxialRotary(RelativePositions):
    """Turn the first half of the dimensions by the row and the second half by the column of a cell (Heo 2024,
    2403.13298, section 3.1, axial), so that a product depends on the distance down and the distance along. Positions
    are those of `places`.

    Args:
        width: width of queries and keys of a head, a multiple of 4.
        base: 100 in the paper, since a grid has few rows.

    Raises:
        ValueError: another width.
    """

    def __init__(self, width: int, base: float = 100.0):
        super().__init__()
        check_axial(width)
        self.width, self.rotary = width, Rotary(width // 2, base=base)

    def rotate(
        self,
        states: Float[Tensor, "*batch position width"],
        places: Int[Tensor, "..."] | int,
    ) -> Tensor:
        if isinstance(places, int):
            places = counted(places, states.shape[-2], states.device)
        down, along = states.chunk(2, -1)
        turned = (
            self.rotary.rotate(down, places // COLUMNS),
            self.rotary.rotate(along, places % COLUMNS),
        )
        return torch.cat(turned, -1)


def check_axial(width: int) -> None:
    """Raises ValueError for a width of a head that cannot be turned by rows and columns."""
    if width % 4:
        raise ValueError(
            f"a head is {width} wide; rotary positions of a grid turn pairs by the row and pairs by the column: choose "
            "a multiple of 4"
        )
