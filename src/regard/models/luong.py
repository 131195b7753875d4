"""The stacked LSTM with global attention and input feeding.

Luong, Pham, Manning 2015 (1508.04025).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.models.attention import SCORES, AlignChoice, ScoreName, build_align
from regard.models.sizes import Share, Sides, Size
from regard.nn.decoders import (
    InitialStateName,
    RecurrentDecoder,
    RecurrentDecoderState,
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
from regard.nn.recurrent import Recurrent, SequenceReader, Stack
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class LuongConfig(Sides):
    """Sizes.

    The paper has embedding and width 1000, 4 layers and a one-directional encoder.

    The paper's scores are the first four of the registry. `cosine` learns its
    sharpness; `distance` has width sqrt(width). `max_source` limits the source of the
    location score only. With `bidirectional` each direction has half the width. `align`
    is global (softmax) or local (local-m, local-p, where `window` is the paper's D) as
    in section 3, or another one. Without `input_feeding` (section 3.3) the decoder's
    state does not depend on earlier reads, and training runs all steps in one pass.
    """

    name: Literal["luong"] = "luong"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    score: ScoreName = "general"
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    bidirectional: bool = False
    input_feeding: bool = True
    max_source: Size = 100
    align: AlignChoice = "softmax"
    window: Size = 10
    start: InitialStateName = "encoder"
    dropout: Share = 0.2

    def __post_init__(self) -> None:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"width {self.width} is odd; two directions need halves of it"
            )


@dataclass(frozen=True, eq=False)
class LuongState(State):
    """`cells (batch, layer, state_width)`, the last attentional vector, the memory, and the alignment's state."""

    cells: Tensor
    attentional: Tensor
    memory: Memory
    alignment: Any = None


class LuongDecoder(RecurrentDecoder[LuongState]):
    """h_t = stack([E y_{t-1}; h~_{t-1}]); c_t reads the memory with h_t.

    h~_t = tanh(W_c [c_t; h_t]).

    Equations 5 and 6 with the input feeding of section 3.3. The weights of step t
    belong to the word y_t that the step predicts.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        combine: nn.Linear,
        output: Output,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.attend = attend
        self.stack = stack
        self.initial = start
        self.combine = combine
        self.output = output
        self.readout = Dropout(dropout)

    def start(self, memory: Memory) -> LuongState:
        cells = first_cells(self.initial, memory, self.stack.state_shape)
        attentional = cells.new_zeros(cells.shape[0], self.combine.out_features)
        return LuongState(cells, attentional, self.attend.prepare(memory))

    def transition(
        self,
        embedded: Tensor,
        state: LuongState,
    ) -> tuple[Tensor, LuongState]:
        top, cells = self.stack(
            torch.cat([embedded, state.attentional], -1), state.cells
        )
        read = self.attend.read(top[:, None], state.memory, state.alignment)
        attentional = self.combine(torch.cat([read.context[:, 0], top], -1)).tanh()
        return attentional, replace(
            state, cells=cells, attentional=attentional, alignment=read.state
        )


class UnfedLuongDecoder(SequenceDecoder[RecurrentDecoderState]):
    """Luong's decoder without input feeding: h_t = network(E y_{t-1}).

    C_t reads the memory with h_t; h~_t = tanh(W_c [c_t; h_t]).

    The network depends on the words only, never on earlier reads, so that training runs
    all steps in one pass. The weights of step t belong to the word y_t that the step
    predicts.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attend: Attend,
        network: Recurrent,
        start: nn.Module,
        combine: nn.Linear,
        output: Output,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding = embedding
        self.attend = attend
        self.network = network
        self.initial = start
        self.combine = combine
        self.output = output
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> RecurrentDecoderState:
        cells = first_cells(self.initial, memory, self.network.state_shape)
        return RecurrentDecoderState(cells, self.attend.prepare(memory))

    def run(
        self,
        tokens: Tokens,
        state: RecurrentDecoderState,
    ) -> tuple[States, RecurrentDecoderState]:
        top, cells = self.network(self.embedding(tokens), state.cells)
        read = self.attend.read(top, state.memory, state.alignment)
        attentional = self.combine(torch.cat([read.context, top], -1)).tanh()
        return self.dropout(attentional), replace(
            state, cells=cells, alignment=read.state
        )


class Luong(EncoderDecoder):
    """Attention over the top layer's states with the current state as query.

    The attentional vector is fed to the next step.

    The decoder starts from a learned map of the encoder's final state. The paper copies
    the state, which needs equal sizes.
    """

    config_class = LuongConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: LuongConfig,
    ):
        source = TokenEmbedding(
            source_vocabulary, config.embedding, dropout=config.dropout
        )
        target = TokenEmbedding(
            target_vocabulary, config.embedding, dropout=config.dropout
        )
        width = config.width // 2 if config.bidirectional else config.width
        reader = SequenceReader(
            config.cell,
            config.embedding,
            width,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        encoder = RecurrentEncoder(source, reader, config.dropout)
        sizes = config.width, config.layers, config.dropout
        if config.input_feeding:
            network = Stack(config.cell, config.embedding + config.width, *sizes)
        else:
            network = Recurrent(config.cell, config.embedding, *sizes)
        attend = Attend(
            SCORES[config.score](config.width, config.max_source),
            build_align(config.align, config.width, config.window),
        )
        size = math.prod(network.state_shape)
        start = choose_initial_state(
            config.start, SummaryInitialState(encoder.summary_width, size), size
        )
        combine = nn.Linear(
            encoder.memory_width + config.width, config.width, bias=False
        )
        output = Output(config.width, target_vocabulary)
        if isinstance(network, Stack):
            decoder = LuongDecoder(
                target, attend, network, start, combine, output, dropout=config.dropout
            )
        else:
            decoder = UnfedLuongDecoder(
                target, attend, network, start, combine, output, dropout=config.dropout
            )
        nn.init.xavier_uniform_(
            decoder.combine.weight, gain=nn.init.calculate_gain("tanh")
        )
        super().__init__(encoder, decoder)
        self.max_source = config.max_source if config.score == "location" else None
