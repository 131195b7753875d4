"""The decoder of the pointer network: Vinyals, Fortunato, Jaitly 2015 (1506.03134), section 2.3."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend
from regard.attention.masks import Dense
from regard.attention.memory import Memory
from regard.nn.cells import Stack
from regard.nn.decoders.protocol import Decoder, State
from regard.nn.dropout import Dropout
from regard.nn.position_output import END, PositionOutput
from regard.shapes import Float, Step


@dataclass(frozen=True, eq=False)
class PositionState(State):
    """`cells (batch, layer, state_width)`, the memory of the end and the elements, the alignment's state."""

    cells: Tensor
    memory: Memory
    alignment: Any = None


class PositionDecoder(Decoder[PositionState]):
    """d_t = stack(element pointed to last, d_{t-1}); u_ti = score(d_t, e_i); p(place i) = align(u_t)_i (equation 3).

    The memory's keys are the encoder's states and its values the elements as the decoder reads them. The end is one
    more place, the first, with a key of its own. The weights of step t are the answer of step t.
    """

    def __init__(
        self,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        widths: tuple[int, int],
        *,
        max_elements: int,
        dropout: float = 0.0,
    ):
        """`widths` are those of the memory's keys and of its values."""
        super().__init__()
        self.attend, self.stack, self.initial = attend, stack, start
        self.end = nn.Parameter(torch.randn(widths[0]) * widths[0] ** -0.5)
        self.first = nn.Parameter(torch.randn(widths[1]) * widths[1] ** -0.5)
        self.output, self.dropout = PositionOutput(1 + max_elements), Dropout(dropout)

    def start(self, memory: Memory) -> PositionState:
        batch = len(memory.key)
        key = torch.cat([self.end.expand(batch, 1, -1), memory.key], 1)
        value = functional.pad(memory.value, (0, 0, 1, 0))
        mask = None if memory.mask is None else Dense(functional.pad(memory.mask.dense(), (1, 0), value=True))
        cells = self.initial(memory).unflatten(1, self.stack.state_shape)
        return PositionState(cells, self.attend.prepare(Memory(key, value, mask, clean=False)))

    def advance(self, tokens: Step, state: PositionState) -> tuple[Float[Tensor, "batch place"], PositionState]:
        places = (tokens - END).clamp(min=0)
        pointed = state.memory.value[torch.arange(len(tokens), device=tokens.device), places]
        given = torch.where((tokens == self.special.start)[:, None], self.first.to(pointed), pointed)
        top, cells = self.stack(given, state.cells)
        read = self.attend.read(self.dropout(top)[:, None], state.memory, state.alignment, weights=True)
        assert read.weights is not None
        return read.weights[:, 0], replace(state, cells=cells, alignment=read.state)
