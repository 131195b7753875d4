"""Layers that models share: embeddings, positions, feed-forward, normalization, output."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, padding
from regard.attention.memory import Memory, Packing
from regard.kernels.cpu import dropout, linear
from regard.kernels.cross_entropy import cross_entropy
from regard.shapes import (
    Features,
    Float,
    Ids,
    Lengths,
    RowIds,
    Scalar,
    States,
    TokenLosses,
    Tokens,
    Vectors,
    to_float32,
)
from regard.text.kinds import IGNORED, SPECIAL


class Residual(nn.Module, ABC):
    """A residual connection with layer normalisation around a sublayer f, in two methods.

        residual.add(x, f(residual.input(x)))

    States have any leading axes, `(..., width)`. The norm adds `epsilon` to the
    variance.
    """

    def __init__(self, width: int, dropout: float = 0.0, epsilon: float = 1e-5):
        super().__init__()
        self.norm = nn.LayerNorm(width, epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def input(self, states: Tensor) -> Tensor:
        """Return the input of the sublayer."""

    @abstractmethod
    def add(self, states: Tensor, output: Tensor) -> Tensor:
        """Add the sublayer's output to the states."""


class PostNorm(Residual):
    """norm(x + dropout(f(x))) (Vaswani 2017, section 3.1)."""

    def input(self, states: Tensor) -> Tensor:
        return states

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return self.norm(states + self.dropout(output))


class PreNorm(Residual):
    """x + dropout(f(norm(x))) (Xiong 2020, 2002.04745).

    It trains without warm-up and needs a norm after the last layer.
    """

    def input(self, states: Tensor) -> Tensor:
        return self.norm(states)

    def add(self, states: Tensor, output: Tensor) -> Tensor:
        return states + self.dropout(output)


class FeedForward(nn.Sequential):
    """W_2 relu(W_1 x + b_1) + b_2 at every position (Vaswani 2017, equation 2).

    It maps `(..., width)` to `(..., width)`.
    """

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None):
        first, last = nn.Linear(width, hidden), nn.Linear(hidden, width)
        super().__init__(first, activation or nn.ReLU(), last)
        for layer in (first, last):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class SwiGLU(nn.Module):
    """W_3 (silu(W_1 x) * W_2 x), without biases (Shazeer 2020, 2002.05202, equation 6)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        for layer in (self.gate, self.up, self.down):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, states: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(states)) * self.up(states))


class Dropout(nn.Module):
    """In training, set numbers to zero with probability `rate` (in [0, 1)) and scale the others; else the identity."""

    def __init__(self, rate: float = 0.0):
        super().__init__()
        self.rate = rate

    def forward(self, states: Tensor) -> Tensor:
        return dropout(states, self.rate) if self.training and self.rate else states

    def extra_repr(self) -> str:
        """Return the rate, for `repr`."""
        return f"rate={self.rate}"


class VariationalDropout(Dropout):
    """Dropout with one mask for all positions of a sequence `(batch, position, width)` (Gal 2016, 1512.05287)."""

    def forward(self, states: Tensor) -> Tensor:
        mask = states.new_ones(len(states), 1, states.shape[-1])
        return states * super().forward(mask)


class WordDropout(Dropout):
    """In training, replace tokens by the unknown one with probability `rate` (after Iyyer 2015, P15-1162)."""

    def forward(self, states: Ids) -> Ids:
        """Return the tokens `(*batch,)`; padding stays."""
        mask = super().forward(torch.ones(states.shape, device=states.device))
        return states.where((mask > 0) | (states == SPECIAL.pad), SPECIAL.unknown)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each inside its residual."""

    def __init__(
        self,
        self_attention: MultiHead,
        feedforward: FeedForward,
        residuals: Iterable[Residual],
    ):
        super().__init__()
        self.self_attention = self_attention
        self.feedforward = feedforward
        self.residuals = nn.ModuleList(residuals)

    def forward(
        self,
        states: Float[Tensor, "*tokens width"],
        mask: Mask | None,
        packing: Packing | None = None,
    ) -> Float[Tensor, "*tokens width"]:
        """Return the layer's output for states `(batch, position, width)`.

        With a `packing` (and a mask), states are packed, `(token, width)`.
        """
        first, second = cast("Sequence[Residual]", self.residuals)
        inputs = first.input(states)
        if packing is None or mask is None:
            context = self.self_attention(
                inputs,
                Memory(
                    inputs,
                    inputs,
                    mask,
                    zero_masked=False,
                ),
            )
        else:
            context = self.self_attention.attend_self(inputs, packing, mask)
        states = first.add(states, context)
        return second.add(states, self.feedforward(second.input(states)))


def run_layers(
    layers: Iterable[nn.Module],
    states: States,
    lengths: Lengths,
) -> Iterator[States]:
    """Yield the output of each layer.

    The first reads states `(batch, position, width)` of `lengths (batch,)`, each
    further one the output before it. If much of the batch is padding, the layers run on
    packed tokens and padding is zeros.
    """
    mask = padding(lengths, states.shape[1])
    packing = Packing.of(lengths, states.shape[1])
    extra = () if packing is None else (packing,)
    states = states if packing is None else packing.pack(states)
    for layer in layers:
        states = layer(states, mask, *extra)
        yield states if packing is None else packing.unpack(states)


class Pooling(nn.Module, ABC):
    """A reduction of padded sequences of states to one vector each.

    A sequence of length 0 has zeros.
    """

    @abstractmethod
    def forward(self, states: States, lengths: Lengths) -> Vectors:
        """Reduce states `(batch, position, width)` to vectors `(batch, width)`.

        Args:
            lengths: The length of each sequence, `(batch,)`.
        """


class AveragePooling(Pooling):
    """The mean of the states."""

    def forward(self, states: States, lengths: Lengths) -> Vectors:
        value = Memory.of(states, lengths).value
        return mean_over_positions(value, padding(lengths, states.shape[1]), lengths)


class MaximumPooling(Pooling):
    """The maximum of each number over the positions."""

    def forward(self, states: States, lengths: Lengths) -> Vectors:
        lowest = torch.finfo(states.dtype).min
        # amax needs at least one position
        states = functional.pad(states, (0, 0, 0, 1))
        outside = ~padding(lengths, states.shape[1]).readable()
        maxima = states.masked_fill(outside[..., None], lowest).amax(1)
        return maxima.masked_fill((lengths == 0)[:, None], 0.0)


def mean_over_positions(states: States, mask: Mask, lengths: Lengths) -> Tensor:
    """Mean over the allowed positions: `(batch, width)`, zero where there are none."""
    allowed = mask.dense().mT.to(states.dtype)
    # half precision overflows in long sequences
    total = to_float32(states * allowed).sum(1)
    return (total / lengths.clamp(min=1)[:, None]).to(states.dtype)


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
    exponents = (
        torch.arange(
            0,
            width,
            2,
            dtype=torch.float64,
        )
        / width
    )
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
        parts = encoding[:, 0::2], encoding[:, 1::2]
        return states + torch.cat(parts, -1).to(states)


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
        """Add the vectors.

        Raises:
            ValueError: A position is beyond the last learned one.
        """
        end = first + states.shape[1]
        if end > len(self.table):
            raise ValueError(
                f"{end} positions, but the model learned positions for at most {len(self.table)}; "
                "shorten the input or raise max_length"
            )
        return states + self.table[first:end]


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
        grid = functional.interpolate(grid, (rows, columns), mode="bicubic")
        return torch.cat([marks, rearrange(grid, "1 d h w -> (h w) d")])


class OutputLayer(ABC):
    """The last module of a decoder.

    It maps features to logits of `out_features` tokens, and computes the loss of targets.
    """

    out_features: int

    @abstractmethod
    def __call__(self, input: Any) -> Tensor:
        """Map features of `*batch` to logits `(*batch, token)`."""

    @abstractmethod
    def loss(
        self,
        features: Any,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """Return the loss of `targets (batch, position)`.

        Positions that are `IGNORED` are left out. The result is the sum, and the loss
        of each position without a gradient.
        """


@dataclass(frozen=True, eq=False)
class SoftmaxPart:
    """A softmax over some words or classes of words.

    `rows (row,)`, the positions it applies to; `weight (class, width)` and `bias
    (class,)` of its logits; `targets (row,)`, the correct class of each row.
    """

    rows: Tensor
    weight: Tensor
    bias: Tensor
    targets: Tensor


class Linear(nn.Linear):
    """A linear map of which a search computes a few rows by a kernel."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class Output(Linear, OutputLayer):
    """Features `(*batch, width)` -> logits `(*batch, vocabulary)`.

    `tied` shares its weight with an embedding of the same vocabulary and width. The
    bias is learned, or zeros.

    Raises:
        ValueError: The embedding to tie to has other sizes.
    """

    def __init__(
        self,
        width: int,
        vocabulary: int,
        tied: TokenEmbedding | None = None,
        *,
        bias: bool = True,
    ):
        super().__init__(width, vocabulary, bias)
        if bias:
            nn.init.zeros_(self.bias)
        else:
            del self.bias
            self.register_buffer("bias", torch.zeros(vocabulary), persistent=False)
        if tied is not None:
            if (tied.vocabulary, tied.width) != (vocabulary, width):
                raise ValueError(
                    f"cannot tie an output of {vocabulary} x {width} to an embedding of {tied.vocabulary} x "
                    f"{tied.width}"
                )
            self.weight = tied.table.weight

    @torch.no_grad()
    def start_from(self, counts: Float[Tensor, "token"]) -> None:
        """Set the bias to the log-frequencies of the tokens in `counts`, each count plus 1.

        Without this, features that saturate (Luong's tanh) must learn the frequencies
        themselves.
        """
        self.bias.copy_((counts + 1).log() - (counts + 1).sum().log())

    def loss(
        self,
        features: Any,
        targets: Tokens,
        smoothing: float = 0.0,
    ) -> tuple[Scalar, TokenLosses]:
        """Return the cross-entropy of `targets (batch, position)`.

        Positions that are `IGNORED` are left out. The result is the sum, and the loss
        of each position without a gradient.

        The logits are never all stored.
        """
        flat = targets.flatten()
        real = (flat != IGNORED).nonzero()[:, 0]
        total = self.weight.new_zeros(())
        per_target = self.weight.new_zeros(len(flat))
        for part in self.parts(flat[real]):
            rows = real[part.rows]
            inputs = features.flatten(0, 1)[rows]
            layer = inputs, part.weight, part.bias
            loss, losses = cross_entropy(*layer, part.targets, smoothing)
            total = total + loss
            per_target = per_target.index_add(0, rows, losses)
        return total, per_target.view(targets.shape)

    def log_prob(
        self,
        features: Float[Tensor, "row width"],
        targets: RowIds,
    ) -> Float[Tensor, " row"]:
        """Log p of each target given its features, with a gradient.

        Unlike `loss` it stores the logits.
        """
        total = to_float32(features.new_zeros(len(targets)))
        for part in self.parts(targets):
            logits = functional.linear(features[part.rows], part.weight, part.bias)
            logs = to_float32(logits).log_softmax(-1)
            logs = logs.gather(1, part.targets[:, None])[:, 0]
            total = total.index_add(0, part.rows, logs)
        return total

    def parts(self, targets: RowIds) -> Iterator[SoftmaxPart]:
        """Return the softmaxes whose probabilities multiply to those of `targets`.

        Here only one.
        """
        rows = torch.arange(len(targets), device=targets.device)
        yield SoftmaxPart(
            rows,
            self.weight,
            self.bias,
            targets,
        )
