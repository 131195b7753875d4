"""A recurrent translation model that trains in one pass.

Attention between two recurrent networks.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.attention import AttentionConfig
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import (
    Encoder,
    EncoderDecoder,
    InitialStateName,
    SequenceDecoder,
    State,
    SummaryInitialState,
    choose_initial_state,
    first_cells,
)
from regard.nn.layers import Dropout, Linear, Output, TokenEmbedding
from regard.nn.recurrent import Recurrent, RecurrentEncoder, SequenceReader
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class OnePassConfig(EncoderDecoderDefaults, AttentionConfig):
    """The sizes and options of `OnePass`.

    The output layer shares the target embedding's weight. With `shared` both languages
    share one embedding and need one vocabulary. `longest` is the most source tokens of
    a score that limits them.
    """

    name: Literal["one-pass"] = "one-pass"
    encoder_width: Size = 256
    encoder_layers: Size = 1
    heads: Size = 1
    start: InitialStateName = "encoder"
    shared: bool = True
    dropout: Share = 0.3
    longest: Size = 256


@dataclass(frozen=True, eq=False)
class OnePassState(State):
    """The states of both networks `(batch, layer, state_width)`, the prepared memory, and the alignment's state."""

    first: Tensor
    second: Tensor
    memory: Memory
    alignment: Any = None


class OnePassDecoder(SequenceDecoder[OnePassState]):
    """q_t = first(E y_{t-1}).

    C_t reads the memory with q_t; h_t = second([q_t; c_t]); readout W [q_t; c_t; h_t].

    The attention of a step depends on earlier words but not on earlier reads; the
    second network carries the reads. The weights of step t belong to the word y_t that
    the step predicts.
    """

    def __init__(
        self, embedding: TokenEmbedding, encoder: Encoder, config: OnePassConfig
    ):
        super().__init__()
        width = config.width
        self.embedding = embedding
        first = Recurrent("lstm", width, width)
        second = Recurrent("lstm", 2 * width, width)
        self.attend = config.build_heads(
            config.longest, memory_width=encoder.memory_width
        )
        self.first, self.second = first, second
        self.starts = nn.ModuleList(
            choose_initial_state(
                config.start,
                SummaryInitialState(encoder.summary_width, 2 * width),
                2 * width,
            )
            for _ in range(2)
        )
        self.readout = Linear(3 * width, width)
        self.output = Output(width, embedding.vocabulary, tied=embedding)
        self.dropout = Dropout(config.dropout)

    def start(self, memory: Memory) -> OnePassState:
        networks = zip(self.starts, (self.first, self.second), strict=True)
        first, second = (
            first_cells(start, memory, network.state_shape)
            for start, network in networks
        )
        return OnePassState(first, second, self.attend.prepare(memory))

    def run(self, tokens: Tokens, state: OnePassState) -> tuple[States, OnePassState]:
        queries, first = self.first(self.embedding(tokens), state.first)
        queries = self.dropout(queries)
        read = self.attend.read(queries, state.memory, state.alignment)
        inputs = torch.cat([queries, read.context], -1)
        outputs, second = self.second(inputs, state.second)
        parts = torch.cat([queries, read.context, self.dropout(outputs)], -1)
        features = self.dropout(self.readout(parts))
        return features, OnePassState(first, second, state.memory, read.state)


class OnePass(EncoderDecoder):
    """Bidirectional LSTM encoder.

    One LSTM computes the queries of multi-head attention, another LSTM reads the
    contexts.
    """

    config_class = OnePassConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: OnePassConfig,
        encoder: Encoder | None = None,
    ):
        sizes = config.width, config.dropout
        source = target = TokenEmbedding(target_vocabulary, *sizes)
        if not config.shared:
            source = TokenEmbedding(source_vocabulary, *sizes)
        reader = SequenceReader(
            "lstm",
            config.width,
            config.encoder_width,
            config.encoder_layers,
            dropout=config.dropout,
        )
        encoder = encoder or RecurrentEncoder(source, reader, config.dropout)
        super().__init__(encoder, OnePassDecoder(target, encoder, config))
