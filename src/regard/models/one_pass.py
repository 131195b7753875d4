"""A recurrent translation model that trains in one pass.

Attention between two recurrent networks.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.models.attention import AlignChoice, ContentScoreName, build_attend
from regard.models.sizes import Share, Sides, Size
from regard.nn.decoders import (
    InitialStateName,
    SequenceDecoder,
    State,
    SummaryInitialState,
    choose_initial_state,
    first_cells,
)
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders import RecurrentEncoder
from regard.nn.layers import Dropout
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent, SequenceReader
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class OnePassConfig(Sides):
    """Sizes.

    The output layer shares the target embedding's weight. With `shared` both languages
    share one embedding and need one vocabulary. `longest` is the most source tokens of
    a score that limits them.
    """

    name: Literal["one-pass"] = "one-pass"
    width: Size = 256
    encoder_width: Size = 256
    encoder_layers: Size = 1
    heads: Size = 1
    align: AlignChoice = "softmax"
    window: Size = 10
    start: InitialStateName = "encoder"
    shared: bool = True
    dropout: Share = 0.3
    score: ContentScoreName = "scaled-dot"
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
        self,
        embedding: TokenEmbedding,
        networks: tuple[Recurrent, Recurrent],
        attend: Attend | MultiHead,
        starts: tuple[nn.Module, nn.Module],
        readout: nn.Linear,
        output: Output,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.attend = attend
        self.first, self.second = networks
        self.starts = nn.ModuleList(starts)
        self.readout = readout
        self.output = output
        self.dropout = Dropout(dropout)

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
        after = replace(state, first=first, second=second, alignment=read.state)
        return features, after


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
    ):
        target = TokenEmbedding(target_vocabulary, config.width, dropout=config.dropout)
        source = (
            target
            if config.shared
            else TokenEmbedding(source_vocabulary, config.width, dropout=config.dropout)
        )
        reader = SequenceReader(
            "lstm",
            config.width,
            config.encoder_width,
            config.encoder_layers,
            dropout=config.dropout,
        )
        encoder = RecurrentEncoder(source, reader, config.dropout)
        first = Recurrent("lstm", config.width, config.width)
        second = Recurrent("lstm", 2 * config.width, config.width)

        def start() -> nn.Module:
            size = 2 * config.width
            return choose_initial_state(
                config.start, SummaryInitialState(encoder.summary_width, size), size
            )

        head_width = config.width // config.heads
        attend = build_attend(
            head_width,
            config.score,
            config.align,
            window=config.window,
            max_keys=config.longest,
        )
        decoder = OnePassDecoder(
            target,
            (first, second),
            MultiHead(
                config.width,
                config.heads,
                attend=attend,
                memory_width=encoder.memory_width,
            ),
            (start(), start()),
            nn.Linear(3 * config.width, config.width),
            Output(config.width, target_vocabulary, tied=target),
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
