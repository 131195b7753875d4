"""The encoder-decoder without attention.

Sutskever, Vinyals, Le 2014 (1409.3215) and Cho et al. 2014 (1406.1078).
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import (
    Encoder,
    EncoderDecoder,
    SequenceDecoder,
    State,
    SummaryInitialState,
    first_cells,
    summary_of,
)
from regard.nn.layers import Dropout, Output, TokenEmbedding
from regard.nn.recurrent import Recurrent, RecurrentEncoder, SequenceReader
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class BottleneckConfig(EncoderDecoderDefaults):
    """The sizes and options of `Bottleneck`.

    With `summary: start` the encoder's final state starts the decoder; with
    `every-step` it also joins every input.

    Sutskever 2014 has 4 LSTM layers of width 1000; Cho 2014 has one gated layer of
    width 1000, `every-step`.
    """

    name: Literal["bottleneck"] = "bottleneck"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 1
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    bidirectional: bool = False
    summary: Literal["start", "every-step"] = "start"
    dropout: Share = 0.0


@dataclass(frozen=True, eq=False)
class BottleneckState(State):
    """`recurrent (batch, layer, state_width)`, and the vector that joins every input.

    The encoder's summary, or an empty one.
    """

    recurrent: Tensor
    every_step: Tensor


class BottleneckDecoder(SequenceDecoder[BottleneckState]):
    """h_t = f([E y_{t-1}; v], h_{t-1}) with h_0 from the summary (Sutskever 2014).

    v is the summary at every step (Cho 2014, equation 8), or empty.
    """

    source_attention = None

    def __init__(
        self,
        embedding: TokenEmbedding,
        recurrent: Recurrent,
        start: nn.Module,
        output: Output,
        *,
        summary_each_step: bool,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.recurrent = recurrent
        self.initial = start
        self.output = output
        self.summary_each_step = summary_each_step
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> BottleneckState:
        summary = summary_of(memory)
        recurrent = first_cells(self.initial, memory, self.recurrent.state_shape)
        every_step = summary if self.summary_each_step else summary[:, :0]
        return BottleneckState(recurrent, every_step)

    def run(
        self,
        tokens: Tokens,
        state: BottleneckState,
    ) -> tuple[States, BottleneckState]:
        embedded = self.embedding(tokens)
        joined = torch.cat(
            [embedded, state.every_step[:, None].expand(-1, embedded.shape[1], -1)], -1
        )
        outputs, recurrent = self.recurrent(joined, state.recurrent)
        return self.dropout(outputs), replace(state, recurrent=recurrent)


class Bottleneck(EncoderDecoder):
    """An encoder-decoder whose decoder sees the source through one vector only."""

    config_class = BottleneckConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: BottleneckConfig,
        encoder: Encoder | None = None,
    ):
        sizes = config.embedding, config.dropout
        source = TokenEmbedding(source_vocabulary, *sizes)
        target = TokenEmbedding(target_vocabulary, *sizes)
        reader = SequenceReader(
            config.cell,
            config.embedding,
            config.width,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        encoder = encoder or RecurrentEncoder(source, reader, config.dropout)
        each_step = config.summary == "every-step"
        input_width = config.embedding + (encoder.summary_width if each_step else 0)
        recurrent = Recurrent(
            config.cell, input_width, config.width, config.layers, config.dropout
        )
        decoder = BottleneckDecoder(
            target,
            recurrent,
            SummaryInitialState(encoder.summary_width, prod(recurrent.state_shape)),
            Output(config.width, target_vocabulary),
            summary_each_step=each_step,
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
