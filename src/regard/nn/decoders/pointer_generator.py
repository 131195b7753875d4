"""The decoder of See, Liu, Manning 2017 (1704.04368), section 2: it writes words, or copies them from the source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.memory import Memory
from regard.nn.cells import Stack
from regard.nn.copying import Copying, CopyOutput, stacked
from regard.nn.decoders.protocol import Decoder, State
from regard.nn.dropout import Dropout
from regard.nn.embeddings import OpenEmbedding
from regard.shapes import Float, Step


@dataclass(frozen=True, eq=False)
class PointerState(State):
    """`cells (batch, layer, state_width)`, the last context, the memory, its tokens `(batch, key)`, zeros for the
    source's own words `(batch, own)`, and the alignment's state."""

    cells: Tensor
    context: Tensor
    memory: Memory
    tokens: Tensor
    room: Tensor
    alignment: Any = None


class PointerDecoder(Decoder[PointerState]):
    """u_t = [E y_{t-1}; c_{t-1}]; s_t = stack(u_t); c_t reads the memory with s_t; p = sigmoid(W [c_t; s_t; u_t]).

    Equations 1 to 4, 8 and 9, where the decoder's input includes the last context. Without a `gate` it never copies.
    The weights of step t belong to the word y_t that the step predicts.

    Args:
        readout: [s_t; c_t] `(batch, parts_width)` to features.
    """

    def __init__(
        self,
        embedding: OpenEmbedding,
        attend: Attend,
        stack: Stack,
        start: nn.Module,
        readout: nn.Linear,
        output: CopyOutput,
        gate: nn.Linear | None,
    ):
        super().__init__()
        self.embedding, self.attend, self.stack = embedding, attend, stack
        self.initial, self.readout, self.output, self.gate = start, readout, output, gate
        self.dropout = Dropout(embedding.dropout.rate)

    def start(self, memory: Memory) -> PointerState:
        """Raises ValueError for a memory that does not know its tokens."""
        if memory.tokens is None:
            raise ValueError("this decoder copies tokens of the source, but the memory has none; make it with tokens=")
        cells = self.initial(memory).unflatten(1, self.stack.state_shape)
        context = memory.value.new_zeros(len(cells), memory.value.shape[-1])
        own = int(memory.tokens.max()) + 1 - self.output.out_features if memory.tokens.numel() else 0
        room = memory.value.new_zeros(len(cells), max(0, own))
        return PointerState(cells, context, self.attend.prepare(memory), memory.tokens, room)

    def advance(self, tokens: Step, state: PointerState) -> tuple[Copying, PointerState]:
        given = torch.cat([self.embedding(tokens), state.context], -1)
        top, cells = self.stack(given, state.cells)
        read = self.attend.read(top[:, None], state.memory, state.alignment, weights=True)
        assert read.weights is not None
        context = read.context[:, 0]
        parts = torch.cat([top, context], -1)
        features = Copying(
            self.dropout(self.readout(parts)),
            self.written(torch.cat([parts, given], -1)),
            read.weights[:, 0],
            state.tokens,
            state.room,
        )
        return features, replace(state, cells=cells, context=context, alignment=read.state)

    def written(self, parts: Tensor) -> Float[Tensor, " batch"]:
        """The logit of writing and not copying; infinity without a gate."""
        return parts.new_full((len(parts),), torch.inf) if self.gate is None else self.gate(parts)[:, 0]

    def join(self, steps: Sequence[Copying]) -> Copying:
        return stacked(steps)
