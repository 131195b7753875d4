"""The LSTM network with a memory tape: Cheng, Dong, Lapata 2016 (1601.06733)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.masks import window
from regard.attention.memory import Memory
from regard.attention.observer import current_observer
from regard.attention.positions import BucketedBias
from regard.attention.scores import Additive
from regard.models.language_model import (
    FULL,
    LanguageModel,
    Softmax,
    make_output,
    output_kind,
)
from regard.models.sizes import Share, Size
from regard.nn.decoders import State
from regard.nn.layers import TokenEmbedding, VariationalDropout
from regard.shapes import States, Tokens, Vectors


@dataclass(frozen=True)
class LSTMNConfig:
    """The sizes and options of `LSTMN`.

    The paper has one layer of width 300 and keeps the whole sentence; here the tape has
    at most `window` places, so that texts can be long. With `positions: bucketed` the
    score also has a learned number for the distance of a place, which at first prefers
    the last one, as an LSTM does. With `gated` a learned gate takes from the last state
    what a step needs of it, and the tape, with words as keys, is free to find related
    ones. The other fields are those of `recurrent`.
    """

    name: Literal["lstmn"] = "lstmn"
    embedding: Size = 256
    width: Size = 256
    attention: Size = 256
    window: Size = 50
    positions: Literal["none", "bucketed"] = "none"
    gated: bool = False
    tied: bool = True
    dropout: Share = 0.3
    softmax: Softmax = FULL


@dataclass(frozen=True, eq=False)
class LSTMNState(State):
    """The earlier states of an LSTM, and what it read last.

    Attributes:
        keys: `(batch, past, attention)`.
        values: [h_i; c_i], `(batch, past, 2 width)`.
        read: h~, `(batch, width)`.
    """

    keys: Tensor
    values: Tensor
    read: Tensor


class LSTMN(LanguageModel[LSTMNState]):
    """An LSTM that reads all earlier states in place of the last one.

        a_i = softmax(v^T tanh(W_h h_i + W_x x_t + W_r h~_{t-1})),  h~_t = sum a_i h_i,  c~_t = sum a_i c_i

    A step of an LSTM from (h~_t, c~_t) with input x_t follows (equations 4 to 10). On
    an empty tape both are zero. With a gate, which the paper lacks, words x_i instead
    of h_i are the keys, and both are mixed with the last state before the step:

        g = sigmoid(W_g [x_t; h_{t-1}] + b_g),  h~_t := g h_{t-1} + (1 - g) h~_t,  c~_t := g c_{t-1} + (1 - g) c~_t
    """

    config_class = LSTMNConfig

    self_attention = "attend"

    def __init__(self, vocabulary: int, config: LSTMNConfig):
        super().__init__()
        self.window = config.window
        self.width = config.width
        self.embedding = TokenEmbedding(vocabulary, config.embedding)
        self.dropout = VariationalDropout(config.dropout)
        size = config.embedding + config.width
        key_width = config.embedding if config.gated else config.width
        self.attend = Attend(Additive(size, key_width, config.attention))
        self.positions = None
        if config.positions == "bucketed":
            # at first 86 % of the weight lies on the last place
            self.positions = BucketedBias(1, both_sides=False)
            table = self.positions.table.data
            table.copy_(-2.0 * torch.arange(self.positions.buckets))
        self.gate = nn.Linear(size, config.width) if config.gated else None
        self.cell = nn.LSTMCell(config.embedding, config.width)
        self.readout, self.output = make_output(
            config.width, self.embedding, output_kind(config.softmax), tied=config.tied
        )

    def begin(self, batch: int) -> LSTMNState:
        width = self.width if self.gate is None else self.embedding.width
        keys = self.attend.score.prepare(self.zeros(batch, 0, width))
        return LSTMNState(
            keys, self.zeros(batch, 0, 2 * self.width), self.zeros(batch, self.width)
        )

    def detach_state(self, state: LSTMNState) -> LSTMNState:
        return self.recent(state.detach())

    def recent(self, state: LSTMNState) -> LSTMNState:
        """Drop the places that no later step reads."""
        recent = slice(-self.window, None)
        return replace(
            state, keys=state.keys[:, recent], values=state.values[:, recent]
        )

    def run(self, tokens: Tokens, state: LSTMNState) -> tuple[States, LSTMNState]:
        outputs = []
        for inputs in self.dropout(self.embedding(tokens)).unbind(1):
            output, state = self.transition(inputs, state)
            outputs.append(output)
        return self.readout(self.dropout(torch.stack(outputs, 1))), state

    def transition(
        self,
        inputs: Tensor,
        state: LSTMNState,
    ) -> tuple[Vectors, LSTMNState]:
        """Read the tape, take a step and write its result.

        Places outside the window are dropped, unless somebody observes: observed
        positions count from the first place.
        """
        query = torch.cat([inputs, state.read], -1)[:, None]
        places = state.keys.shape[1]
        recent = None
        if places > self.window:
            before = self.window - 1
            recent = window(
                1,
                places,
                before=before,
                after=0,
                device=query.device,
            )
        memory = Memory(state.keys, state.values, recent, zero_masked=False)
        bias = None
        if self.positions is not None:
            bias = self.positions.make_bias(query, places, memory.key_positions())
        context = self.attend.read(query, memory, bias=bias).context
        read, cell = context[:, 0].chunk(2, -1)
        if self.gate is not None and places:
            last, last_cell = state.values[:, -1].chunk(2, -1)
            gate = self.gate(torch.cat([inputs, last], -1)).sigmoid()
            read = read + gate * (last - read)
            cell = cell + gate * (last_cell - cell)
        output, cell = self.cell(inputs, (read, cell))
        key = output if self.gate is None else inputs
        key = self.attend.score.prepare(key[:, None])
        value = torch.cat([output, cell], -1)
        keys = torch.cat([state.keys, key], 1)
        values = torch.cat([state.values, value[:, None]], 1)
        state = LSTMNState(keys, values, read)
        if current_observer() is None:
            state = self.recent(state)
        return output, state
