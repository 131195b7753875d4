"""A recurrent decoder with attention and without input feeding, so that all steps of training run in one pass."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.memory import Memory
from regard.nn.decoders.protocol import SequenceDecoder, State
from regard.nn.dropout import Dropout
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent
from regard.shapes import States, Tokens


@dataclass(frozen=True, eq=False)
class OnePassState(State):
    """The states of both networks, `(batch, layer, state_width)`, the prepared memory, the alignment's state."""

    first: Tensor
    second: Tensor
    memory: Memory
    alignment: Any = None


class OnePassDecoder(SequenceDecoder[OnePassState]):
    """q_t = first(E y_{t-1}); c_t reads the memory with q_t; h_t = second([q_t; c_t]); readout W [q_t; c_t; h_t].

    The attention of a step depends on the words before it but not on earlier reads; the second network carries those.
    The weights of step t belong to the word y_t that the step predicts.
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
        self.embedding, self.attend = embedding, attend
        self.first, self.second = networks
        self.starts = nn.ModuleList(starts)
        self.readout, self.output = readout, output
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> OnePassState:
        first, second = (start(memory) for start in self.starts)
        return OnePassState(
            first.unflatten(1, self.first.state_shape),
            second.unflatten(1, self.second.state_shape),
            self.attend.prepare(memory),
        )

    def run(self, tokens: Tokens, state: OnePassState) -> tuple[States, OnePassState]:
        queries, first = self.first(self.embedding(tokens), state.first)
        queries = self.dropout(queries)
        read = self.attend.read(queries, state.memory, state.alignment)
        outputs, second = self.second(torch.cat([queries, read.context], -1), state.second)
        parts = torch.cat([queries, read.context, self.dropout(outputs)], -1)
        after = replace(state, first=first, second=second, alignment=read.state)
        return self.dropout(self.readout(parts)), after
