"""Embeddings of tokens, of characters and of positions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.nn.layers import Dropout
from regard.shapes import Features, Float, Ids, Int, States
from regard.text.special import SPECIAL


class Embedding(nn.Module, ABC):
    """Vectors of tokens: a table, or computed from characters, or a mixture."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of a vector."""

    @abstractmethod
    def forward(self, tokens: Ids) -> Features: ...


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
        padding = self.table.weight[SPECIAL.pad].data
        nn.init.zeros_(padding)  # a tied output layer then scores padding 0
        self.scale = width**0.5 if scale is None else scale
        self.dropout = Dropout(dropout)

    @property
    def vocabulary(self) -> int:
        return self.table.num_embeddings

    @property
    def width(self) -> int:
        return self.table.embedding_dim

    def forward(self, tokens: Ids) -> Features:
        return self.dropout(self.table(tokens) * self.scale)


class OpenEmbedding(TokenEmbedding):
    """An embedding that reads ids past the vocabulary as the `unknown` token.

    Such ids stand for words of one source only.
    """

    unknown = SPECIAL.unknown

    def forward(self, tokens: Ids) -> Features:
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
    positions = torch.arange(first, first + size, dtype=torch.float64)
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angle = positions[:, None] / 10000**exponents
    pairs = torch.stack([angle.sin(), angle.cos()], -1)
    return pairs.flatten(1)[:, :width]


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
        if size == 1 and not torch.compiler.is_compiling():
            encoding = sinusoid(width, first)
        else:
            encoding = sinusoids(size, width, first)
        return states + encoding.to(states)


class SinesThenCosines(Positions):
    """Sinusoidal positions with all sines of a position before all its cosines."""

    def forward(self, states: States, first: int = 0) -> States:
        size, width = states.shape[1:]
        encoding = sinusoids(size, width, first)
        sines = encoding[:, 0::2]
        cosines = encoding[:, 1::2]
        return states + torch.cat([sines, cosines], -1).to(states)


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
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        for linear in (self.transform, self.gate):
            nn.init.normal_(linear.weight, std=width**-0.5)
            nn.init.zeros_(linear.bias)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, states: Features) -> Features:
        gate = self.gate(states).sigmoid()
        return gate * self.transform(states).relu() + (1 - gate) * states


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

    def forward(self, characters: Int[Tensor, "*batch character"]) -> Features:
        """Words with the same number of characters, padded to at least the widest kernel.

        Equal words are encoded once.
        """
        rows = characters.flatten(0, -2)
        _, places = rows.unique(dim=0, return_inverse=True)
        first = places.new_empty(int(places.max()) + 1)
        numbers = torch.arange(len(rows)).to(places)
        first.scatter_(0, places, numbers)
        words = rows[first]
        embedded = rearrange(self.table(words), "n c w -> n w c")
        maxima = []
        for convolution in self.convolutions:
            greatest = convolution(embedded).amax(-1)
            maxima.append(self.activation(greatest))
        features = torch.cat(maxima, -1)
        vectors = self.projection(self.highways(features))
        return vectors[places].unflatten(0, characters.shape[:-1])


class LearnedGrid(nn.Module):
    """One learned vector per token without a place and per patch of a `side` x `side` grid.

    For another grid they are interpolated by cubic splines (Dosovitskiy 2021, section
    3.2).
    """

    def __init__(self, marks: int, side: int, width: int):
        super().__init__()
        self.marks = marks
        self.side = side
        self.table = nn.Parameter(torch.empty(marks + side * side, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, states: States, rows: int, columns: int) -> States:
        return states + self.encoding(rows, columns)

    def encoding(self, rows: int, columns: int) -> Float[Tensor, "position width"]:
        """Return the encoding for a grid of `rows` x `columns` patches."""
        if (rows, columns) == (self.side, self.side):
            return self.table
        marks = self.table[: self.marks]
        patches = self.table[self.marks :]
        grid = rearrange(patches, "(h w) d -> 1 d h w", h=self.side)
        grid = functional.interpolate(
            grid, (rows, columns), mode="bicubic", align_corners=False
        )
        return torch.cat([marks, rearrange(grid, "1 d h w -> (h w) d")])
