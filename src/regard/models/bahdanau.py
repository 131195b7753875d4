"""RNNsearch: Bahdanau, Cho, Bengio 2015 (1409.0473), appendix A."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.attention.scores import Additive
from regard.models.attention import (
    HISTORIES,
    AlignConfig,
    HistoryName,
    make_attend,
)
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
from regard.nn.recurrent import (
    CELL_CLASSES,
    CellReader,
    RecurrentEncoder,
    SequenceReader,
    Stack,
)
from regard.shapes import States, Step, Tokens


@dataclass(frozen=True)
class BahdanauConfig(EncoderDecoderDefaults, AlignConfig):
    """The sizes and options of a `Bahdanau`.

    The paper has embedding 620, width 1000, attention 1000, maxout 500.

    `cell: gru` is PyTorch's unit, which is faster but not the paper's (see
    `regard.nn.recurrent`). `align` may differ from the paper's softmax (see
    `regard.attention.align`). `history` lets the
    score see earlier weights (see `regard.attention.history`).
    """

    name: Literal["bahdanau"] = "bahdanau"
    embedding: Size = 256
    width: Size = 256
    attention: Size = 256
    maxout: Size = 256
    cell: Literal["gru-reset-before", "gru"] = "gru-reset-before"
    history: HistoryName | None = None
    start: InitialStateName = "encoder"
    dropout: Share = 0.0


class BackwardInitialState(nn.Module):
    """tanh(W_s backward_1), with the backward half of the first position's state.

    See Bahdanau 2015, appendix A.2.2.
    """

    def __init__(self, memory_width: int, size: int):
        super().__init__()
        self.first = memory_width // 2
        self.linear = nn.Linear(memory_width - self.first, size, bias=False)

    def forward(self, memory: Memory) -> Tensor:
        """Return the state `(batch, size)`; zeros for a memory without positions."""
        # the sum over a slice of one position, or of none in an empty memory
        return self.linear(memory.value[:, :1, self.first :].sum(1)).tanh()


class MaxoutReadout(nn.Module):
    """t = maxout over pairs of U_o s_{t-1} + V_o E y_{t-1} + C_o c_t.

    One matrix maps all three, concatenated.
    """

    def __init__(self, parts_width: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.width = width
        self.linear = Linear(parts_width, 2 * width)
        self.dropout = Dropout(dropout)

    def forward(self, parts: Tensor) -> Tensor:
        pairs = self.linear(parts).unflatten(-1, (self.width, 2))
        return self.dropout(pairs.amax(-1))


class BahdanauDecoder(SequenceDecoder[RecurrentDecoderState]):
    """A decoder that reads the source with its previous state, then updates the state.

    See appendix A.2.2 of the paper.

        e_tj = v_a^T tanh(W_a s_{t-1} + U_a h_j),  a_t = softmax(e_t),  c_t = sum_j a_tj h_j
        s_t = cell([E y_{t-1}; c_t], s_{t-1})
        t_t = maxout(U_o s_{t-1} + V_o E y_{t-1} + C_o c_t),  p(y_t) = softmax(W_o t_t)

    The weights of step t belong to the word y_t that the step predicts. This decoder
    only holds the `gate` of Show, Attend and Tell, whose decoder is a subclass.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        readout: nn.Module,
        output: Output,
        gate: nn.Module | None = None,
    ):
        super().__init__()
        self.embedding = embedding
        self.attend = attend
        self.stack = stack
        self.gate = gate
        self.initial = start
        self.readout = readout
        self.output = output

    def start(self, memory: Memory) -> RecurrentDecoderState:
        cells = first_cells(self.initial, memory, self.stack.state_shape)
        return RecurrentDecoderState(cells, self.attend.prepare(memory))

    def run(
        self,
        tokens: Tokens,
        state: RecurrentDecoderState,
    ) -> tuple[States, RecurrentDecoderState]:
        steps = []
        for embedded in self.embedding(tokens).unbind(1):
            parts, state = self.transition(embedded, state)
            steps.append(parts)
        return self.readout(torch.stack(steps, 1)), state

    def advance(
        self,
        tokens: Step,
        state: RecurrentDecoderState,
    ) -> tuple[Tensor, RecurrentDecoderState]:
        parts, state = self.transition(self.embedding(tokens), state)
        return self.readout(parts), state

    def transition(
        self,
        embedded: Tensor,
        state: RecurrentDecoderState,
    ) -> tuple[Tensor, RecurrentDecoderState]:
        """Take one step.

        Returns:
            The input of the readout, and the new state.
        """
        previous = state.cells[:, -1, : self.stack.width]
        read = self.attend.read(previous[:, None], state.memory, state.alignment)
        context = read.context[:, 0]
        _, cells = self.stack(torch.cat([embedded, context], -1), state.cells)
        after = RecurrentDecoderState(cells, state.memory, read.state)
        return torch.cat([previous, embedded, context], -1), after


class Bahdanau(EncoderDecoder):
    """A bidirectional GRU encoder, and a GRU decoder with additive attention.

    The query is s_{t-1}, s_0 comes from the backward state of the first word, and the
    readout is a maxout layer. Of another `encoder` s_0 comes from the summary.
    """

    config_class = BahdanauConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: BahdanauConfig,
        encoder: Encoder | None = None,
    ):
        source = TokenEmbedding(source_vocabulary, config.embedding, config.dropout)
        target = TokenEmbedding(target_vocabulary, config.embedding, config.dropout)
        if config.cell == "gru":
            reader = SequenceReader("gru", config.embedding, config.width)
        else:
            cell = CELL_CLASSES[config.cell]
            cells = (cell(config.embedding, config.width) for _ in range(2))
            reader = CellReader(*cells)
        is_own = encoder is None
        encoder = encoder or RecurrentEncoder(source, reader)
        memory_width = encoder.memory_width
        width = config.width
        inputs = config.embedding + memory_width
        stack = Stack(config.cell, inputs, width)
        attend = make_attend(
            Additive(width, memory_width, config.attention),
            config.build_align(width),
            HISTORIES[config.history](config.attention),
        )
        if is_own:
            initial = BackwardInitialState(memory_width, width)
        else:
            initial = SummaryInitialState(encoder.summary_width, width)
        start = choose_initial_state(config.start, initial, width)
        readout = MaxoutReadout(width + inputs, config.maxout, config.dropout)
        output = Output(config.maxout, target_vocabulary)
        decoder = BahdanauDecoder(
            target,
            attend,
            stack,
            start,
            readout,
            output,
        )
        super().__init__(encoder, decoder)
