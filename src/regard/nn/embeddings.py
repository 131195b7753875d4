"""Embeddings of tokens and of positions."""

from abc import ABC, abstractmethod
from functools import lru_cache

import torch
from torch import Tensor, nn

from regard.nn.sublayers import Dropout
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

    The table starts small, so that an output layer tied to it starts near uniform. Vectors are multiplied by `scale`,
    by default sqrt(width) (Vaswani 2017, section 3.4), so that the layers above start with numbers near 1.
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
    """An embedding that reads ids past the vocabulary, which stand for words of one source only, as the `unknown`
    token."""

    unknown = SPECIAL.unknown

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch width"]:
        return super().forward(tokens.where(tokens < self.vocabulary, self.unknown))


class Positions(nn.Module, ABC):
    """Add an encoding to states `(batch, position, width)`; `first` is the position of the first state."""

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
    """The encoding of one position, cached for decoding steps. Callers must not write to it."""
    return sinusoids(1, width, position)


class Sinusoidal(Positions):
    """Sines and cosines of geometrically growing wavelengths, for any length; no parameters."""

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


class Integers(Positions):
    """Each position's number times one learned direction. The encoding grows with the length, beyond the training
    range."""

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
        """Raises ValueError beyond the last position."""
        end = first + states.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"{end} positions, but the model learned positions for at most {len(self.table)}; "
                "shorten the input or raise max_length"
            )
        return states + self.table[first:end]
