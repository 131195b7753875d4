"""The decoder of Show, Attend and Tell (Xu 2015, 1502.03044, section 3.1.2), which weighs what it reads by a gate."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.record import give
from regard.nn.cells import Stack
from regard.nn.decoders.pre_attention import LookingState, LooksFirst
from regard.nn.dropout import Dropout
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.shapes import Float


class Gate(nn.Module):
    """beta_t = sigmoid(f(h_{t-1})), handed to whoever listens as one weight `(batch, 1, 1)` a step."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, 1)

    def forward(self, states: Float[Tensor, "batch width"]) -> Float[Tensor, "batch 1"]:
        opened = self.linear(states).sigmoid()
        give(self, opened[:, None])
        return opened


class DeepOutput(nn.Module):
    """E y_{t-1} + L_h h_t + L_z z_t, what stands before L_o (equation 7), for parts that stand in this order."""

    def __init__(self, embedding: int, width: int, context: int, dropout: float = 0.0):
        super().__init__()
        self.embedding = embedding
        self.linear = nn.Linear(width + context, embedding)
        self.dropout = Dropout(dropout)

    def forward(self, parts: Float[Tensor, "*batch parts"]) -> Float[Tensor, "*batch embedding"]:
        return self.dropout(parts[..., : self.embedding] + self.linear(parts[..., self.embedding :]))


class GatedDecoder(LooksFirst):
    """c_t reads the memory with h_{t-1}; z_t = beta_t c_t; h_t = cell([E y_{t-1}; z_t], h_{t-1}).

    The weights of step t belong to the word y_t that the step predicts. The paper's equation 7 leaves open whether the
    output sees the context before or after the gate; here, as in the cell, it is after.
    """

    source_gate = "gate"

    def __init__(
        self,
        embedding: TokenEmbedding,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        readout: DeepOutput,
        output: Output,
    ):
        super().__init__()
        self.embedding, self.attend, self.stack = embedding, attend, stack
        self.gate = Gate(stack.width)
        self.initial, self.readout, self.output = start, readout, output

    def turn(self, embedded: Tensor, state: LookingState) -> tuple[Tensor, LookingState]:
        before, read, alignment = self.look(state)
        context = self.gate(before) * read
        after, cells = self.stack(torch.cat([embedded, context], -1), state.cells)
        return torch.cat([embedded, after, context], -1), replace(state, cells=cells, alignment=alignment)
