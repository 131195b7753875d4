"""The decoder of Bahdanau, Cho, Bengio 2015 (1409.0473), appendix A.2.2: it looks before it moves."""

from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor, nn

from regard.attention import Attend
from regard.nn.cells import Stack
from regard.nn.decoders.pre_attention import LookingState, LooksFirst
from regard.nn.dropout import Dropout
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output


class MaxoutReadout(nn.Module):
    """t = maxout over pairs of U_o s_{t-1} + V_o E y_{t-1} + C_o c_t, one matrix over all three."""

    def __init__(self, parts_width: int, width: int, dropout: float = 0.0):
        super().__init__()
        self.linear = nn.Linear(parts_width, 2 * width)
        self.dropout = Dropout(dropout)

    def forward(self, parts: Tensor) -> Tensor:
        return self.dropout(rearrange(self.linear(parts), "... (w pair) -> ... w pair", pair=2).amax(-1))


class BahdanauDecoder(LooksFirst):
    """c_t reads the memory with s_{t-1}; s_t = cell([E y_{t-1}; c_t], s_{t-1}); the readout sees s_{t-1}, y_{t-1}, c_t.

    The weights of step t belong to the word y_t that the step predicts.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        readout: nn.Module,
        output: Output,
    ):
        super().__init__()
        self.embedding, self.attend, self.stack = embedding, attend, stack
        self.initial, self.readout, self.output = start, readout, output

    def turn(self, embedded: Tensor, state: LookingState) -> tuple[Tensor, LookingState]:
        before, context, alignment = self.look(state)
        _, cells = self.stack(torch.cat([embedded, context], -1), state.cells)
        return torch.cat([before, embedded, context], -1), replace(state, cells=cells, alignment=alignment)
