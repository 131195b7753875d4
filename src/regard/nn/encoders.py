"""Encoders of texts, images and frames."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import Dense, padding
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.nn.decoders import Encoder
from regard.nn.layers import (
    Dropout,
    Embedding,
    LearnedGrid,
    Sinusoidal,
    TokenEmbedding,
    mean_over_positions,
)
from regard.nn.recurrent import BidirectionalReader, SequenceReader
from regard.shapes import Features, Float, Images, Int, Lengths, States, Tokens


class MatchingEncoder(Encoder):
    """A bidirectional LSTM over embeddings beside similar words of the same text.

    This is the aligned embedding of Chen 2017 (1704.00051, section 3.2) within one
    text.

        c_i = sum_j softmax_j(relu(W x_i) . relu(W x_j)) x_j  over j /= i,  h = BiLSTM([x; c])

    A word that occurs twice finds itself, however rare it is. The only word of a text
    finds zeros. The summary is the LSTM's final state.
    """

    def __init__(self, embedding: Embedding, width: int, dropout: float = 0.0):
        super().__init__()
        size = embedding.width
        self.embedding = embedding
        self.dropout = Dropout(dropout)
        self.alike = nn.Sequential(nn.Linear(size, size), nn.ReLU())
        self.attend = Attend(Dot())
        self.reader = SequenceReader("lstm", 2 * size, width)
        self.memory_width = self.summary_width = self.reader.output_width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        size = tokens.shape[1]
        different = ~torch.eye(size, dtype=torch.bool, device=tokens.device)
        mask = padding(lengths, size) & Dense(different)
        words = self.embedding(tokens)
        alike = self.alike(words)
        matched = self.attend(alike, Memory(alike, words.to(alike), mask))
        states, final = self.reader(torch.cat([words, matched], -1), lengths)
        return Memory.of(
            self.dropout(states),
            lengths,
            final,
            tokens,
        )


class ConvolutionalEncoder(Encoder):
    """Gated convolutions over embeddings with positions (Gehring 2017, 1705.03122).

        h^l_i = (GLU(W [h^{l-1}_{i-k}; ...; h^{l-1}_{i+k}] + b) + h^{l-1}_i) sqrt(1/2)

    with zeros beyond both ends of a text. The summary is the mean of the states.
    """

    def __init__(
        self, embedding: TokenEmbedding, layers: int, kernel: int, dropout: float = 0.0
    ):
        super().__init__()
        width = embedding.width
        self.embedding = embedding
        self.positions = Sinusoidal()
        self.layers = nn.ModuleList(
            nn.Conv1d(width, 2 * width, kernel, padding=kernel // 2)
            for _ in range(layers)
        )
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        mask = padding(lengths, tokens.shape[1])
        beyond = ~mask.dense().mT
        states = self.dropout(self.positions(self.embedding(tokens)))
        # a convolution needs a position, and an empty text has none
        for convolution in self.layers if tokens.shape[1] else ():
            inputs = states.masked_fill(beyond, 0.0)
            gated = functional.glu(convolution(inputs.mT), 1).mT
            states = (self.dropout(gated) + states) * 0.5**0.5
        summary = mean_over_positions(states, mask, lengths)
        return Memory.of(states, lengths, summary, tokens)


N = TypeVar("N", int, Tensor)


class GridEncoder(nn.Module):
    """Convolutions in stages that each halve both sides.

    The cells of the last stage are the memory, row by row, and their mean is its
    summary.

    Xu 2015 (1502.03044, section 3.1.1) uses the cells of a network that was trained on
    ImageNet; this one learns with its decoder. A cell sees its own part of the image
    and little more (15 x 15 pixels after three stages) and norms stay within a cell, so
    that attention weights can be read as locations. A learned vector encodes the
    position of each of `side` x `side` cells, which convolutions do not.
    """

    def __init__(self, channels: int, widths: tuple[int, ...], side: int):
        super().__init__()
        self.stages = nn.Sequential()
        for width in widths:
            self.stages.append(convolution_stage(channels, width))
            channels = width
        self.positions = LearnedGrid(0, side, widths[-1])
        self.memory_width = self.summary_width = widths[-1]

    def forward(self, images: Images) -> Memory:
        """Process images `(batch, channel, height, width)`.

        Returns:
            A memory of `(batch, cell, memory_width)`.
        """
        # norms over channels need the memory format
        grid = self.stages(images.contiguous(memory_format=torch.channels_last))
        cells = rearrange(grid, "b c h w -> b (h w) c")
        cells = self.positions(cells, *grid.shape[-2:])
        return Memory(cells, cells, summary=cells.mean(1))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of each cell of `(batch, channel, row, column)` over its channels."""

    def forward(
        self,
        input: Float[Tensor, "batch channel row column"],
    ) -> Float[Tensor, "batch channel row column"]:
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


def convolution_stage(before: int, width: int) -> nn.Sequential:
    """Return a 3 x 3 convolution that halves both sides, and a 1 x 1 convolution.

    Neither has a bias because the norm has an offset.
    """
    layers = []
    for channels, size in ((before, 3), (width, 1)):
        padding = size // 2
        layer = nn.Conv2d(
            channels,
            width,
            size,
            1 + padding,
            padding,
            bias=False,
        )
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        layers += [layer, ChannelNorm(width), nn.ReLU()]
    return nn.Sequential(*layers)


def cells_of(size: N, stages: int) -> N:
    """Cells along a side of `size` pixels after `stages` stages.

    Of several sides if it is a tensor.
    """
    for _ in range(stages):
        size = (size + 1) // 2
    return size


Frames = Float[Tensor, "batch frame feature"]


class SubsamplingConvolutions(nn.Module):
    """Stages of a 3 x 3 convolution with stride 2 over time and frequency and a ReLU.

    A linear map of all bands and channels of one time follows. Frames `(batch, frame,
    feature)` of `lengths (batch,)` become states `(batch, key, width)` and their
    lengths; time is halved once a stage, rounded up. Frames past a length have no
    influence.

    State j sees the frames around frame 2^halvings j. Nothing is normalised: the norm
    of an image's cells would remove the loudness.
    """

    def __init__(self, features: int, stages: Sequence[int], width: int):
        super().__init__()
        self.stages = nn.ModuleList()
        before = 1
        for after in stages:
            layer = nn.Conv2d(
                before,
                after,
                3,
                stride=2,
                padding=1,
            )
            before = after
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
            self.stages.append(layer)
        self.width = width
        self.halvings = len(stages)
        self.linear = nn.Linear(stages[-1] * cells_of(features, len(stages)), width)

    def keys(self, frames: int) -> int:
        """Return the number of states of so many frames."""
        return cells_of(frames, self.halvings)

    def forward(self, frames: Frames, lengths: Lengths) -> tuple[States, Lengths]:
        states = frames[:, None]
        for stage in self.stages:
            real = padding(lengths, states.shape[2]).readable()
            states = states.masked_fill(~real[:, None, :, None], 0.0)
            states = stage(states).relu()
            lengths = (lengths + 1) // 2
        states = self.linear(rearrange(states, "b c time band -> b time (band c)"))
        real = padding(lengths, states.shape[1]).readable()
        return states.masked_fill(~real[..., None], 0.0), lengths


class FrameEncoder(nn.Module):
    """Convolutions that halve time, and a reader of their states, which are the memory."""

    def __init__(
        self,
        halving: SubsamplingConvolutions,
        reader: BidirectionalReader,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.halving = halving
        self.reader = reader
        self.before = Dropout(dropout)
        self.after = Dropout(dropout)
        self.memory_width = self.summary_width = reader.output_width

    def forward(self, frames: Frames, lengths: Lengths) -> Memory:
        """Process frames `(batch, frame, feature)` of `lengths (batch,)`.

        Returns:
            A memory of `(batch, key, memory_width)`.
        """
        states, lengths = self.halving(frames, lengths)
        states, summary = self.reader(self.before(states), lengths)
        return Memory.of(self.after(states), lengths, summary)


class Highway(nn.Module):
    """A highway layer, `(*batch, width)` -> `(*batch, width)`.

        y = g * relu(W_t x + b_t) + (1 - g) * x  with  g = sigmoid(W_g x + b_g)

    See Srivastava 2015, 1505.00387. The initial bias b_g of -2 lets most of x pass.
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
        words, places = characters.flatten(0, -2).unique(dim=0, return_inverse=True)
        embedded = rearrange(self.table(words), "n c w -> n w c")
        maxima = [
            self.activation(convolution(embedded).amax(-1))
            for convolution in self.convolutions
        ]
        features = torch.cat(maxima, -1)
        vectors = self.projection(self.highways(features))
        return vectors[places].unflatten(0, characters.shape[:-1])
