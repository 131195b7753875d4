"""Encoders of frames, such as those of a spectrogram: parts that halve time, then layers that read all of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.nn.embeddings import Positions
from regard.nn.encoders.grid import cells_of
from regard.nn.encoders.transformer import EncoderLayer, EncoderLayers, mean
from regard.nn.recurrent import Reader, SequenceReader
from regard.nn.sublayers import Dropout
from regard.shapes import Float, Lengths, States

Frames = Float[Tensor, "batch frame feature"]


class Halving(nn.Module, ABC):
    """Frames `(batch, frame, feature)` of `lengths (batch,)` -> states `(batch, key, width)` and their lengths: time is
    halved `halvings` times, rounded up. Frames past a length have no influence."""

    width: int
    halvings: int

    @abstractmethod
    def forward(self, frames: Frames, lengths: Lengths) -> tuple[States, Lengths]: ...

    def keys(self, frames: int) -> int:
        """The number of states of so many frames."""
        return cells_of(frames, self.halvings)


class HalvingConvolutions(Halving):
    """Stages of a 3 x 3 convolution with stride 2 over time and frequency and a ReLU, then a linear map of all bands
    and channels of one time. State j sees the frames around frame 2^halvings j. Nothing is normalised: the norm of an
    image's cells would remove the loudness."""

    def __init__(self, features: int, stages: Sequence[int], width: int):
        super().__init__()
        inner = (1, *stages[:-1])
        self.stages = nn.ModuleList(
            convolution(*pair) for pair in zip(inner, stages, strict=True)
        )
        self.width, self.halvings = width, len(stages)
        self.linear = nn.Linear(stages[-1] * cells_of(features, len(stages)), width)

    def forward(self, frames: Frames, lengths: Lengths) -> tuple[States, Lengths]:
        states = frames[:, None]
        for one in self.stages:
            states = one(
                states.masked_fill(
                    ~padding(lengths, states.shape[2]).readable()[:, None, :, None], 0.0
                )
            ).relu()
            lengths = (lengths + 1) // 2
        states = self.linear(rearrange(states, "b c time band -> b time (band c)"))
        return states.masked_fill(
            ~padding(lengths, states.shape[1]).readable()[..., None], 0.0
        ), lengths


class Pyramid(Halving):
    """A bidirectional LSTM a stage, each followed by the concatenation of the states of two successive times (Chan,
    Jaitly, Le, Vinyals 2016, Listen, Attend and Spell, 1508.01211, equation 5); after the last of an odd number of
    states stand zeros."""

    def __init__(self, features: int, stages: Sequence[int]):
        super().__init__()
        inner = (features, *(4 * width for width in stages[:-1]))
        self.stages = nn.ModuleList(
            SequenceReader("lstm", before, width)
            for before, width in zip(inner, stages, strict=True)
        )
        self.width, self.halvings = 4 * stages[-1], len(stages)

    def forward(self, frames: Frames, lengths: Lengths) -> tuple[States, Lengths]:
        states = frames
        for reader in self.stages:
            states, _ = reader(states, lengths)
            even = functional.pad(states, (0, 0, 0, states.shape[1] % 2))
            states, lengths = (
                rearrange(even, "b (t two) w -> b t (two w)", two=2),
                (lengths + 1) // 2,
            )
        return states, lengths


class AttentionReader(nn.Module):
    """Transformer layers over states with positions. The final state is the mean."""

    def __init__(
        self,
        width: int,
        positions: Positions,
        layers: Iterable[EncoderLayer],
        norm: nn.Module,
    ):
        super().__init__()
        self.positions, self.norm = positions, norm
        self.layers = EncoderLayers(layers)
        self.output_width = width

    def forward(
        self, states: States, lengths: Lengths
    ) -> tuple[States, Float[Tensor, "batch width"]]:
        """As `Reader.forward`."""
        found = self.norm(self.layers(self.positions(states), lengths))
        return found, mean(found, padding(lengths, found.shape[1]), lengths)


class FrameEncoder(nn.Module):
    """A part that halves time, and a reader of its states, which are the memory."""

    def __init__(
        self, halving: Halving, reader: Reader | AttentionReader, dropout: float = 0.0
    ):
        super().__init__()
        self.halving, self.reader = halving, reader
        self.before, self.after = Dropout(dropout), Dropout(dropout)
        self.memory_width = self.summary_width = reader.output_width
        self.self_attention = (
            "reader.layers.*.self_attention"
            if isinstance(reader, AttentionReader)
            else None
        )

    def forward(self, frames: Frames, lengths: Lengths) -> Memory:
        """Frames `(batch, frame, feature)` of `lengths (batch,)` -> a memory of `(batch, key, memory_width)`."""
        states, lengths = self.halving(frames, lengths)
        states, summary = self.reader(self.before(states), lengths)
        return Memory.of(self.after(states), lengths, summary)


def convolution(before: int, width: int) -> nn.Conv2d:
    """A 3 x 3 convolution that halves both sides."""
    found = nn.Conv2d(before, width, 3, stride=2, padding=1)
    nn.init.kaiming_normal_(found.weight, nonlinearity="relu")
    nn.init.zeros_(found.bias)  # pyright: ignore[reportArgumentType]
    return found
