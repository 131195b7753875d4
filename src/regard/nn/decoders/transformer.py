"""The self-attentive decoder (Vaswani 2017, section 3.1)."""

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import Tensor, nn

from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import Mask
from regard.attention.memory import Memory
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.nn.embeddings import Positions, TokenEmbedding
from regard.nn.kv_cache import Past, check_growing, empty_past, read_past
from regard.nn.output import Output
from regard.nn.sublayers import (
    Dropout,
    FeedForward,
    Residual,
    check_layer,
    expect_one_width,
    width_in,
)
from regard.shapes import States, Tokens


@dataclass(frozen=True, eq=False)
class TransformerState(State):
    """The state of each layer: `pasts`, its cache of target positions with the state of its self-attention's alignment;
    `sources`, the memory prepared for it; `alignments`, the state of its cross-attention's alignment."""

    pasts: tuple[Past, ...]
    sources: tuple[Memory, ...]
    alignments: tuple[Any, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.pasts[0].length


class ReadingLayer(nn.Module, ABC):
    """Self-attention, cross-attention and feed-forward, each inside its residual. Raises ValueError for parts of
    different widths."""

    def __init__(
        self,
        self_attention: MultiHead,
        cross_attention: MultiHead,
        feedforward: FeedForward,
        residuals: tuple[Residual, Residual, Residual],
    ):
        super().__init__()
        self.self_attention, self.cross_attention, self.feedforward = (
            self_attention,
            cross_attention,
            feedforward,
        )
        self.residuals = nn.ModuleList(residuals)
        own, cross = self_attention.widths, cross_attention.widths[:1]
        check_layer(feedforward, residuals, self_attention=own, cross_attention=cross)

    @property
    def own(self) -> Residual:
        """The residual of the self-attention."""
        return cast(Residual, self.residuals[0])

    def read_source(
        self, states: States, source: Memory, alignment: Any = None
    ) -> tuple[States, Any]:
        """The cross-attention and feed-forward: states that read themselves -> the layer's states, and the alignment's
        state."""
        _, cross, last = cast("Sequence[Residual]", self.residuals)
        read = self.cross_attention.read(cross.input(states), source, alignment)
        states = cross.add(states, read.context)
        return last.add(states, self.feedforward(last.input(states))), read.state


class DecoderLayer(ReadingLayer):
    """A layer whose positions read earlier ones and the source.

    Raises:
        ValueError: the self-attention's alignment cannot read a growing sequence, or parts have different widths.
    """

    def __init__(
        self,
        self_attention: MultiHead,
        cross_attention: MultiHead,
        feedforward: FeedForward,
        residuals: tuple[Residual, Residual, Residual],
    ):
        check_growing(self_attention)
        super().__init__(self_attention, cross_attention, feedforward, residuals)

    def forward(
        self, states: States, past: Past, source: Memory, alignment: Any = None
    ) -> tuple[States, Past, Any]:
        """Positions that follow `past` -> their states, the past including them, and the alignment's state."""
        context, past = read_past(self.self_attention, self.own.input(states), past)
        states, after = self.read_source(
            self.own.add(states, context), source, alignment
        )
        return states, past, after


class ParallelDecoderLayer(ReadingLayer):
    """A layer whose positions read each other in both directions, and the source: for decoders that predict all
    positions at once (Gu 2018, 1711.02281, section 3; Carion 2020, 2005.12872, section 3.2)."""

    def forward(
        self, states: States, source: Memory, mask: Mask | Tensor | None = None
    ) -> States:
        """Positions and the source, prepared by the cross-attention -> their states. The `mask` is that of the
        positions among each other."""
        states = self.own.add(
            states, self_attention(self.self_attention, self.own.input(states), mask)
        )
        return self.read_source(states, source)[0]


class DecoderLayers(nn.ModuleList):
    """Layers on top of each other."""

    def start(self, memory: Memory) -> TransformerState:
        """The state before the first token, with the source prepared for each layer."""
        layers = cast("Sequence[DecoderLayer]", self)
        pasts = tuple(
            empty_past(layer.self_attention, memory.value) for layer in layers
        )
        return TransformerState(pasts, self.sources(memory), (None,) * len(layers))

    def sources(self, memory: Memory) -> tuple[Memory, ...]:
        """The source prepared for the cross-attention of each layer."""
        return tuple(
            layer.cross_attention.prepare(memory)
            for layer in cast("Sequence[DecoderLayer]", self)
        )

    def forward(
        self, states: States, state: TransformerState
    ) -> tuple[States, TransformerState]:
        """The last layer's states of the next positions, and the state after them."""
        after = []
        for layer, *carried in zip(
            self, state.pasts, state.sources, state.alignments, strict=True
        ):
            states, *kept = layer(states, *carried)
            after.append(kept)
        pasts, alignments = zip(*after, strict=True)
        return states, replace(state, pasts=pasts, alignments=alignments)


class TransformerDecoder(SequenceDecoder[TransformerState]):
    """Layers over embedded, right-shifted targets with positions. Each step adds to a cache of keys and values.

    The cross-attention weights at step t belong to the word y_t that the step predicts.
    """

    source_attention = "layers.*.cross_attention"
    self_attention = "layers.*.self_attention"

    def __init__(
        self,
        embedding: TokenEmbedding,
        positions: Positions,
        layers: Iterable[DecoderLayer],
        norm: nn.Module,
        output: Output,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding, self.positions, self.norm, self.output = (
            embedding,
            positions,
            norm,
            output,
        )
        self.layers = DecoderLayers(layers)
        widths = {
            f"layer {at}": width_in(each.feedforward)
            for at, each in enumerate(cast("Sequence[DecoderLayer]", self.layers))
        }
        ends = {"norm": width_in(norm), "output": width_in(output)}
        expect_one_width(
            "the decoder", {"embedding": embedding.width, **widths, **ends}
        )
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> TransformerState:
        return self.layers.start(memory)

    def run(
        self, tokens: Tokens, state: TransformerState
    ) -> tuple[States, TransformerState]:
        states = self.dropout(self.positions(self.embedding(tokens), state.position))
        states, state = self.layers(states, state)
        return self.norm(states), state
