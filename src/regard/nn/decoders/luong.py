"""The decoders of Luong, Pham, Manning 2015 (1508.04025), section 3: they move before they look."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.nn.cells import Stack
from regard.nn.decoders.pre_attention import LookingState
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.nn.decoders.recurrent import Stepwise
from regard.nn.dropout import Dropout
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent
from regard.shapes import States, Tokens


@dataclass(frozen=True, eq=False)
class LuongState(State):
    """`cells (batch, layer, state_width)`, the last step's attentional vector, the memory, the alignment's state."""

    cells: Tensor
    attentional: Tensor
    memory: Memory
    alignment: Any = None


class LuongDecoder(Stepwise[LuongState]):
    """h_t = stack([E y_{t-1}; h~_{t-1}]); c_t reads the memory with h_t; h~_t = tanh(W_c [c_t; h_t]).

    Equations 5 and 6, with the input feeding of section 3.3. The weights of step t belong to the word y_t that the step
    predicts.
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
        self.embedding, self.attend, self.stack = embedding, attend, stack
        self.initial, self.combine, self.output = start, combine, output
        self.readout = Dropout(dropout)

    def start(self, memory: Memory) -> LuongState:
        cells = self.initial(memory).unflatten(1, self.stack.state_shape)
        attentional = cells.new_zeros(len(cells), self.combine.out_features)
        return LuongState(cells, attentional, self.attend.prepare(memory))

    def turn(self, embedded: Tensor, state: LuongState) -> tuple[Tensor, LuongState]:
        top, cells = self.stack(torch.cat([embedded, state.attentional], -1), state.cells)
        read = self.attend.read(top[:, None], state.memory, state.alignment)
        attentional = self.combine(torch.cat([read.context[:, 0], top], -1)).tanh()
        return attentional, replace(state, cells=cells, attentional=attentional, alignment=read.state)


class UnfedLuongDecoder(SequenceDecoder[LookingState]):
    """h_t = network(E y_{t-1}); c_t reads the memory with h_t; h~_t = tanh(W_c [c_t; h_t]): Luong's without input
    feeding, so that all steps of training run in one pass.

    The network knows the words alone and nothing that was read: what a word needs of the memory is read when it is due.
    The weights of step t belong to the word y_t that the step predicts.
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
        self.embedding, self.attend, self.network = embedding, attend, network
        self.initial, self.combine, self.output = start, combine, output
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> LookingState:
        cells = self.initial(memory).unflatten(1, self.network.state_shape)
        return LookingState(cells, self.attend.prepare(memory))

    def run(self, tokens: Tokens, state: LookingState) -> tuple[States, LookingState]:
        top, cells = self.network(self.embedding(tokens), state.cells)
        read = self.attend.read(top, state.memory, state.alignment)
        attentional = self.combine(torch.cat([read.context, top], -1)).tanh()
        return self.dropout(attentional), replace(state, cells=cells, alignment=read.state)
