"""Embeddings of tokens, of characters and of positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.positions import RelativePositions, Rotary, expand_positions
from regard.nn.layers import Dropout
from regard.shapes import Float, Int, States
from regard.text.special import SPECIAL


class Embedding(nn.Module, ABC):
    """Vectors of tokens: a table, or computed from characters, or a mixture."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of a vector."""

    @abstractmethod
    def forward(
        self, tokens: Int[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch width"]: ...


class TokenEmbedding(Embedding):
    """Vectors of tokens `(*batch,)` -> `(*batch, width)`, with dropout.

    The table starts small, so that an output layer tied to it starts near uniform.
    Vectors are multiplied by `scale`, by default sqrt(width) (Vaswani 2017, section
    3.4), so that the layers above start with numbers near 1.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        dropout: float = 0.0,
        scale: float | None = None,
    ):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        nn.init.zeros_(
            self.table.weight[SPECIAL.pad].data
        )  # a tied output layer then scores padding 0
        self.scale = width**0.5 if scale is None else scale
        self.dropout = Dropout(dropout)

    @property
    def vocabulary(self) -> int:
        return self.table.num_embeddings

    @property
    def width(self) -> int:
        return self.table.embedding_dim

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        return self.dropout(self.table(tokens) * self.scale)


class OpenEmbedding(TokenEmbedding):
    """An embedding that reads ids past the vocabulary as the `unknown` token.

    Such ids stand for words of one source only.
    """

    unknown = SPECIAL.unknown

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        return super().forward(tokens.where(tokens < self.vocabulary, self.unknown))


class Positions(nn.Module, ABC):
    """Add an encoding to states `(batch, position, width)`.

    `first` is the position of the first state.
    """

    @abstractmethod
    def forward(self, states: States, first: int = 0) -> States: ...


class NoPositions(Positions):
    """Return the states unchanged."""

    def forward(self, states: States, first: int = 0) -> States:
        return states


def sinusoids(size: int, width: int, first: int = 0) -> Float[Tensor, "size width"]:
    """PE(pos, 2k) = sin(pos / 10000^(2k/D)), PE(pos, 2k+1) = cos(pos / 10000^(2k/D)) (Vaswani 2017, section 3.5)."""
    position = torch.arange(first, first + size, dtype=torch.float64)[:, None]
    angle = position / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


@lru_cache(maxsize=1024)
def sinusoid(width: int, position: int) -> Float[Tensor, "1 width"]:
    """Return the encoding of one position, cached for decoding steps.

    Callers must not write to it.
    """
    return sinusoids(1, width, position)


class Sinusoidal(Positions):
    """Sines and cosines of geometrically growing wavelengths, for any length.

    No parameters.
    """

    def forward(self, states: States, first: int = 0) -> States:
        size, width = states.shape[1:]
        stepping = size == 1 and not torch.compiler.is_compiling()
        return states + (
            sinusoid(width, first) if stepping else sinusoids(size, width, first)
        ).to(states)


class SinesThenCosines(Positions):
    """Sinusoidal positions with all sines of a position before all its cosines."""

    def forward(self, states: States, first: int = 0) -> States:
        encoding = sinusoids(states.shape[1], states.shape[2], first)
        return states + torch.cat([encoding[:, 0::2], encoding[:, 1::2]], -1).to(states)


class LinearPositions(Positions):
    """Each position's number times one learned direction.

    The encoding grows with the length, beyond the training range.
    """

    def __init__(self, width: int):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width) * width**-0.5)

    def forward(self, states: States, first: int = 0) -> States:
        numbers = torch.arange(first, first + states.shape[1], device=states.device)
        return states + numbers[:, None] * self.direction


class Learned(Positions):
    """One learned vector per position, up to `size` positions."""

    def __init__(self, size: int, width: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(size, width) * width**-0.5)

    def forward(self, states: States, first: int = 0) -> States:
        """Check the arguments.

        Raises:
            ValueError: Beyond the last position.
        """
        end = first + states.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"{end} positions, but the model learned positions for at most {len(self.table)}; "
                "shorten the input or raise max_length"
            )
        return states + self.table[first:end]


class Highway(nn.Module):
    """g * relu(W_t x + b_t) + (1 - g) * x with g = sigmoid(W_g x + b_g).

    `(*batch, width)` -> `(*batch, width)`. See Srivastava 2015, 1505.00387.

    The initial bias of -2 lets most of x pass.
    """

    def __init__(self, width: int):
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        for linear in (self.transform, self.gate):
            nn.init.normal_(linear.weight, std=width**-0.5)
            nn.init.zeros_(linear.bias)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(
        self, states: Float[Tensor, "*batch width"]
    ) -> Float[Tensor, "*batch width"]:
        gate = self.gate(states).sigmoid()
        return gate * self.transform(states).relu() + (1 - gate) * states


def unique_rows(rows: Int[Tensor, "row column"], size: int) -> Int[Tensor, " row"]:
    """Return the place of each row among the distinct rows in their order, for ids below `size`.

    This is what `rows.unique(dim=0, return_inverse=True)` gives, whose comparisons are
    slow on a CPU.
    """
    bits = (size - 1).bit_length()
    ids = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for part in rows.long().split(62 // bits, 1):
        shifts = bits * torch.arange(part.shape[1], device=rows.device).flip(0)
        packed = (part << shifts).sum(1).unique(return_inverse=True)[1]
        ids = (ids * len(rows) + packed).unique(return_inverse=True)[1]
    return ids


class CharacterEncoder(nn.Module):
    """A vector of a word from its characters.

    Convolutions, max-pooling over the word, an activation, highway layers and a
    projection (Kim 2016, 1508.06615; Jozefowicz 2016, 1602.02410).

    Args:
        alphabet: Number of ids; id 0 is padding, with a zero vector.
        width: Width of a character's vector.
        filters: Pairs (kernel size in characters, number of filters).
        activation: Activation after the pooling.
        highways: Number of highway layers.
        projection: Width of the output.
    """

    def __init__(
        self,
        alphabet: int,
        width: int,
        filters: Sequence[tuple[int, int]],
        activation: nn.Module,
        highways: int,
        projection: int,
    ):
        super().__init__()
        self.width = projection
        self.table = nn.Embedding(alphabet, width, padding_idx=0)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width, count, size) for size, count in filters
        )
        self.activation = activation
        filter_count = sum(count for _, count in filters)
        self.highways = nn.Sequential(*(Highway(filter_count) for _ in range(highways)))
        self.projection = nn.Linear(filter_count, projection)
        nn.init.uniform_(self.table.weight[1:].data, -1.0, 1.0)
        nn.init.normal_(self.projection.weight, std=filter_count**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(
        self, characters: Int[Tensor, "*batch character"]
    ) -> Float[Tensor, "*batch width"]:
        """Words with the same number of characters, padded to at least the widest kernel.

        Equal words are encoded once.
        """
        rows = characters.flatten(0, -2)
        places = unique_rows(rows, self.table.num_embeddings)
        first = places.new_empty(int(places.max()) + 1).scatter_(
            0, places, torch.arange(len(rows)).to(places)
        )
        words = rows[first]
        embedded = rearrange(self.table(words), "n c w -> n w c")
        maxima = [
            self.activation(convolution(embedded).amax(-1))
            for convolution in self.convolutions
        ]
        vectors = self.projection(self.highways(torch.cat(maxima, -1)))
        return vectors[places].unflatten(0, characters.shape[:-1])


class NoCharacters(nn.Module):
    """In place of a character encoder: vectors of width 0."""

    def forward(
        self, characters: Int[Tensor, "*batch character"]
    ) -> Float[Tensor, "*batch width"]:
        return torch.zeros(*characters.shape[:-1], 0, device=characters.device)


COLUMNS = 1 << 12
"""More than the columns of any grid: the place of a cell is row * COLUMNS + column."""


class GridPositions(nn.Module, ABC):
    """Add an encoding to states `(batch, position, width)`.

    Tokens without a place, such as [CLS], come first; then the patches, row by row.
    """

    @abstractmethod
    def forward(self, states: States, rows: int, columns: int) -> States: ...


class NoGrid(GridPositions):
    """Return the states unchanged."""

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states


class SinusoidalGrid(GridPositions):
    """Sinusoids of the row in the first half of the width, of the column in the other.

    Zeros for tokens without a place.

    Zeros for tokens without a place.
    """

    def forward(self, states: States, rows: int, columns: int) -> States:
        width = states.shape[2]
        down = sinusoids(rows, width // 2)[:, None].expand(-1, columns, -1)
        along = sinusoids(columns, width - width // 2).expand(rows, -1, -1)
        encoding = torch.cat([down, along], -1).flatten(0, 1)
        marks = states.shape[1] - len(encoding)
        return states + functional.pad(encoding, (0, 0, marks, 0)).to(states)


class LearnedGrid(GridPositions):
    """One learned vector per token without a place and per patch of a `side` x `side` grid.

    For another grid they are interpolated by cubic splines (Dosovitskiy 2021, section
    3.2).
    """

    def __init__(self, marks: int, side: int, width: int):
        super().__init__()
        self.marks, self.side = marks, side
        self.table = nn.Parameter(torch.empty(marks + side * side, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states + self.encoding(rows, columns)

    def encoding(self, rows: int, columns: int) -> Float[Tensor, "position width"]:
        """Return the encoding for a grid of `rows` x `columns` patches."""
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
    """Return the places of cells row by row, behind tokens that stand where the first cell stands."""
    down, along = (
        torch.arange(rows, device=device) * COLUMNS,
        torch.arange(columns, device=device),
    )
    return functional.pad((down[:, None] + along).flatten(), (marks, 0))


class AxialRotary(RelativePositions):
    """Rotary positions of a grid (Heo 2024, 2403.13298, section 3.1, axial).

    The first half of the dimensions is rotated by the row and the second half by the
    column of a cell, so that a product depends on the distance down and the distance
    along.

    Positions are those of `places`.

    Args:
        width: Width of queries and keys of a head, a multiple of 4.
        base: 100 in the paper, since a grid has few rows.

    Raises:
        ValueError: Another width.
    """

    def __init__(self, width: int, base: float = 100.0):
        super().__init__()
        check_axial(width)
        self.width, self.rotary = width, Rotary(width // 2, base=base)

    def rotate(
        self,
        states: Float[Tensor, "*batch position width"],
        position_ids: Int[Tensor, "..."] | int,
    ) -> Tensor:
        if isinstance(position_ids, int):
            position_ids = expand_positions(
                position_ids, states.shape[-2], states.device
            )
        down, along = states.chunk(2, -1)
        halves = (
            self.rotary.rotate(down, position_ids // COLUMNS),
            self.rotary.rotate(along, position_ids % COLUMNS),
        )
        return torch.cat(halves, -1)


def check_axial(width: int) -> None:
    """Check the arguments.

    Raises:
        ValueError: A width of a head that cannot be turned by rows and columns.
    """
    if width % 4:
        raise ValueError(
            f"a head is {width} wide; rotary positions of a grid turn pairs by the row and pairs by the column: choose "
            "a multiple of 4"
        )
