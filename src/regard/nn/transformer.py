"""The layers, the encoder and the decoder of the Transformer.

See Vaswani et al. 2017, 1706.03762.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from torch import nn

from regard.attention.heads import (
    MultiHead,
    causal_attention,
    check_causal,
    empty_cache,
)
from regard.attention.masks import padding
from regard.attention.memory import KVCache, Memory
from regard.nn.decoders import Encoder, SequenceDecoder, State
from regard.nn.layers import (
    Dropout,
    Embedding,
    EncoderLayer,
    FeedForward,
    Output,
    Positions,
    Residual,
    TokenEmbedding,
    mean_over_positions,
    run_layers,
)
from regard.shapes import Lengths, States, Tokens


class EncoderLayers(nn.ModuleList):
    """Layers on top of each other."""

    def forward(self, states: States, lengths: Lengths) -> States:
        """Return the last layer's states, for sequences of `lengths (batch,)`."""
        return deque(run_layers(self, states, lengths), maxlen=1).pop()


class TransformerEncoder(Encoder):
    """Layers over embeddings with positions.

    The summary is the mean of the states of real tokens.
    """

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
        self.embedding = embedding
        self.positions = positions
        self.norm = norm
        self.layers = EncoderLayers(layers)
        self.dropout = Dropout(dropout)
        self.memory_width = self.summary_width = embedding.width

    def forward(self, tokens: Tokens, lengths: Lengths) -> Memory:
        states = self.dropout(self.positions(self.embedding(tokens)))
        states = self.norm(self.layers(states, lengths))
        return Memory.of(
            states,
            lengths,
            mean_over_positions(states, padding(lengths, tokens.shape[1]), lengths),
            tokens,
        )


@dataclass(frozen=True, eq=False)
class TransformerState(State):
    """The state of each layer.

    `caches`, its cache of target positions with the state of its self-attention's
    alignment; `sources`, the memory prepared for it; `alignments`, the state of its
    cross-attention's alignment.
    """

    caches: tuple[KVCache, ...]
    sources: tuple[Memory, ...]
    alignments: tuple[Any, ...]

    @property
    def position(self) -> int:
        """Number of tokens read so far."""
        return self.caches[0].length


class DecoderLayer(nn.Module):
    """Self-attention to earlier positions, cross-attention and feed-forward.

    Each is inside its residual.

    Raises:
        ValueError: The self-attention's alignment can't read a growing sequence.
    """

    def __init__(
        self,
        self_attention: MultiHead,
        cross_attention: MultiHead,
        feedforward: FeedForward,
        residuals: Iterable[Residual],
    ):
        check_causal(self_attention)
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feedforward = feedforward
        self.residuals = nn.ModuleList(residuals)

    def forward(
        self,
        states: States,
        cache: KVCache,
        source: Memory,
        alignment: Any = None,
    ) -> tuple[States, KVCache, Any]:
        """Compute the states of positions that follow a cache.

        Args:
            states: The layer's input, `(batch, position, width)`.
            cache: The cache of earlier positions.
            source: What `cross_attention.prepare` made of the source.
            alignment: The state of the cross-attention's alignment.

        Returns:
            The layer's output, the cache that includes its positions, and the new state
            of the alignment.
        """
        first, second, third = cast("Sequence[Residual]", self.residuals)
        context, cache = causal_attention(
            self.self_attention, first.input(states), cache
        )
        states = first.add(states, context)
        read = self.cross_attention.read(second.input(states), source, alignment)
        states = second.add(states, read.context)
        states = third.add(states, self.feedforward(third.input(states)))
        return states, cache, read.state


class DecoderLayers(nn.ModuleList):
    """Layers on top of each other."""

    def start(self, memory: Memory) -> TransformerState:
        """Return the state before the first token, with the source prepared for each layer."""
        layers = cast("Sequence[DecoderLayer]", self)
        caches = tuple(
            empty_cache(layer.self_attention, memory.value) for layer in layers
        )
        return TransformerState(caches, self.sources(memory), (None,) * len(layers))

    def sources(self, memory: Memory) -> tuple[Memory, ...]:
        """Return the source prepared for the cross-attention of each layer."""
        return tuple(
            layer.cross_attention.prepare(memory)
            for layer in cast("Sequence[DecoderLayer]", self)
        )

    def forward(
        self,
        states: States,
        state: TransformerState,
    ) -> tuple[States, TransformerState]:
        """Return the last layer's states of the next positions, and the state after them."""
        after = []
        for layer, *carried in zip(
            self, state.caches, state.sources, state.alignments, strict=True
        ):
            states, *states_after = layer(states, *carried)
            after.append(states_after)
        caches, alignments = zip(*after, strict=True)
        return states, replace(state, caches=caches, alignments=alignments)


class TransformerDecoder(SequenceDecoder[TransformerState]):
    """Layers over embedded, right-shifted targets with positions.

    Each step adds to a cache of keys and values.

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
        self.embedding = embedding
        self.positions = positions
        self.norm = norm
        self.output = output
        self.layers = DecoderLayers(layers)
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> TransformerState:
        return self.layers.start(memory)

    def run(
        self,
        tokens: Tokens,
        state: TransformerState,
    ) -> tuple[States, TransformerState]:
        states = self.dropout(self.positions(self.embedding(tokens), state.position))
        states, state = self.layers(states, state)
        return self.norm(states), state
