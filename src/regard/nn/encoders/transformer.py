"""The self-attentive encoder (Vaswani 2017, section 3.1)."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, padding
from regard.attention.memory import Memory, Packing
from regard.nn.embeddings import Embedding, Positions
from regard.nn.encoders.protocol import Encoder
from regard.nn.sublayers import (
    Dropout,
    FeedForward,
    Residual,
    check_layer,
    expect_one_width,
    width_in,
)
from regard.shapes import Float, Int, Lengths, States, Tokens, wide


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each inside its residual."""

    def __init__(
        self,
        self_attention: MultiHead,
        feedforward: FeedForward,
        residuals: tuple[Residual, Residual],
    ):
        super().__init__()
        self.self_attention, self.feedforward = self_attention, feedforward
        self.residuals = nn.ModuleList(residuals)
        check_layer(feedforward, residuals, self_attention=self_attention.widths)

    def forward(
        self,
        states: Float[Tensor, "*tokens width"],
        mask: Mask | None,
        packing: Packing | None = None,
        *,
        places: Int[Tensor, " position"] | None = None,
    ) -> Float[Tensor, "*tokens width"]:
        """States `(batch, position, width)`, for relative positions at `places`; with a `packing` (and a mask), packed
        states `(token, width)`."""
        first, second = cast("Sequence[Residual]", self.residuals)
        inputs = first.input(states)
        if packing is None or mask is None:
            context = self.self_attention(
                inputs, Memory(inputs, inputs, mask, places=places, clean=False)
            )
        else:
            context = self.self_attention.attend_self(inputs, packing, mask)
        states = first.add(states, context)
        return second.add(states, self.feedforward(second.input(states)))


def encoded(
    layers: Iterable[nn.Module], states: States, lengths: Lengths
) -> Iterator[States]:
    """Yield the output of each layer: the first reads states `(batch, position, width)` of `lengths (batch,)`, each
    further one the output before it. If much of the batch is padding, the layers run on packed tokens and padding is
    zeros."""
    mask, packing = (
        padding(lengths, states.shape[1]),
        Packing.of(lengths, states.shape[1]),
    )
    extra = () if packing is None else (packing,)
    states = states if packing is None else packing.pack(states)
    for layer in layers:
        states = layer(states, mask, *extra)
        yield states if packing is None else packing.unpack(states)


class EncoderLayers(nn.ModuleList):
    """Layers on top of each other."""

    def forward(self, states: States, lengths: Lengths) -> States:
        """The last layer's states, for sequences of `lengths (batch,)`."""
        return deque(encoded(self, states, lengths), maxlen=1).pop()


def mean(states: States, mask: Mask, lengths: Lengths) -> Tensor:
    """Mean over the allowed positions: `(batch, width)`, zero where there are none."""
    allowed = mask.dense().mT.to(states.dtype)
    total = wide(states * allowed).sum(1)  # half precision overflows in long sequences
    return (total / lengths.clamp(min=1)[:, None]).to(states.dtype)


class TransformerEncoder(Encoder):
    """Layers over embeddings with positions. The summary is the mean of the states of real tokens."""

    self_attention = "layers.*.self_attention"

    def __init__(
        self,
        embedding: Embedding,
        positions: Positions,
        layers: Iterable[EncoderLayer],
        norm: nn.Module,
        dropout: float,
    ):
        super().__init__()
        self.embedding, self.positions, self.norm = embedding, positions, norm
        self.layers = EncoderLayers(layers)
        widths = {
            f"layer {at}": width_in(each.feedforward)
            for at, each in enumerate(cast("Sequence[EncoderLayer]", self.layers))
        }
        expect_one_width(
            "the encoder",
            {"embedding": embedding.width, **widths, "norm": width_in(norm)},
        )
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = embedding.width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        states = self.dropout(self.positions(self.embedding(tokens)))
        states = self.norm(self.layers(states, lengths))
        return Memory.of(
            states,
            lengths,
            mean(states, padding(lengths, tokens.shape[1]), lengths),
            tokens,
        )
