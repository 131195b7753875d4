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
from regard.models.attention import SCORES, AlignConfig, ScoreName
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import (
    Encoder,
    EncoderDecoder,
    InitialStateName,
    RecurrentDecoderState,
    SequenceDecoder,
    SummaryInitialState,
    choose_initial_state,
    first_cells,
)
from regard.nn.layers import Dropout, Linear, Output, TokenEmbedding
from regard.nn.recurrent import Recurrent, RecurrentEncoder, SequenceReader, Stack
from regard.shapes import States, Step, Tokens


@dataclass(frozen=True)
class LuongConfig(EncoderDecoderDefaults, AlignConfig):
    """The sizes and options of `Luong`.

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
    start: InitialStateName = "encoder"
    dropout: Share = 0.2

    def __post_init__(self) -> None:
        if self.bidirectional and self.width % 2:
            raise ValueError(
                f"width {self.width} is odd; two directions need halves of it"
            )


class LuongDecoder(SequenceDecoder[RecurrentDecoderState]):
    """h_t = stack([E y_{t-1}; h~_{t-1}]); c_t reads the memory with h_t.

    h~_t = tanh(W_c [c_t; h_t]).

    Equations 5 and 6 with the input feeding of section 3.3. Without it h_t depends on
    the words only, and all steps are computed in one pass. The weights of step t belong
    to the word y_t that the step predicts.
    """

    def __init__(
        self, embedding: TokenEmbedding, encoder: Encoder, config: LuongConfig
    ):
        super().__init__()
        sizes = config.width, config.layers, config.dropout
        self.embedding = embedding
        self.stack: Any = None
        self.network: Any = None
        if config.input_feeding:
            stack = Stack(config.cell, embedding.width + config.width, *sizes)
        else:
            stack = Recurrent(config.cell, embedding.width, *sizes)
        self.attend = Attend(
            SCORES[config.score](config.width, config.max_source),
            config.build_align(config.width),
        )
        if isinstance(stack, Stack):
            self.stack = stack
        else:
            self.network = stack
        self.state_shape = stack.state_shape
        size = math.prod(stack.state_shape)
        summary = SummaryInitialState(encoder.summary_width, size)
        self.initial = choose_initial_state(config.start, summary, size)
        width = encoder.memory_width + config.width
        self.combine = Linear(width, config.width, bias=False)
        self.output = Output(config.width, embedding.vocabulary)
        self.dropout = Dropout(config.dropout)
        gain = nn.init.calculate_gain("tanh")
        nn.init.xavier_uniform_(self.combine.weight, gain)

    def start(self, memory: Memory) -> RecurrentDecoderState:
        cells = first_cells(self.initial, memory, self.state_shape)
        last = cells.new_zeros(len(cells), self.combine.out_features)
        return RecurrentDecoderState(cells, self.attend.prepare(memory), last=last)

    def run(
        self,
        tokens: Tokens,
        state: RecurrentDecoderState,
    ) -> tuple[States, RecurrentDecoderState]:
        embedded = self.embedding(tokens)
        if self.stack is None:
            top, cells = self.network(embedded, state.cells)
            read = self.attend.read(top, state.memory, state.alignment)
            vectors = self.combine(torch.cat([read.context, top], -1)).tanh()
            state = replace(state, cells=cells, alignment=read.state)
            return self.dropout(vectors), state
        steps = []
        for word in embedded.unbind(1):
            state = self.transition(word, state)
            steps.append(state.last)
        return self.dropout(torch.stack(steps, 1)), state

    def advance(
        self,
        tokens: Step,
        state: RecurrentDecoderState,
    ) -> tuple[Tensor, RecurrentDecoderState]:
        if self.stack is None:
            return super().advance(tokens, state)
        state = self.transition(self.embedding(tokens), state)
        return self.dropout(state.last), state

    def transition(
        self, word: Tensor, state: RecurrentDecoderState
    ) -> RecurrentDecoderState:
        """Take one step with input feeding; its h~_t is the new state's `last`."""
        top, cells = self.stack(torch.cat([word, state.last], -1), state.cells)
        read = self.attend.read(top[:, None], state.memory, state.alignment)
        last = self.combine(torch.cat([read.context[:, 0], top], -1)).tanh()
        return RecurrentDecoderState(cells, state.memory, read.state, last)


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
        encoder: Encoder | None = None,
    ):
        sizes = config.embedding, config.dropout
        source = TokenEmbedding(source_vocabulary, *sizes)
        target = TokenEmbedding(target_vocabulary, *sizes)
        reader = SequenceReader(
            config.cell,
            config.embedding,
            config.width // 2 if config.bidirectional else config.width,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        encoder = encoder or RecurrentEncoder(source, reader, config.dropout)
        super().__init__(encoder, LuongDecoder(target, encoder, config))
        self.max_source = config.max_source if config.score == "location" else None
