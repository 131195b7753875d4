"""The decoder without attention: all that it knows of the source is one vector."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.nn.decoders.protocol import Decoder, State
from regard.nn.dropout import Dropout
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent
from regard.shapes import Float, States, Step, Tokens


@dataclass(frozen=True, eq=False)
class BottleneckState(State):
    """`recurrent (batch, layer, state_width)` and what joins every input: the encoder's summary, or nothing."""

    recurrent: Tensor
    every_step: Tensor


class BottleneckDecoder(Decoder[BottleneckState]):
    """h_t = f([E y_{t-1}; v], h_{t-1}), h_0 from the summary (Sutskever 2014); v is the summary itself at every step
    (Cho 2014, equation 8) or nothing."""

    source_attention = None

    def __init__(
        self,
        embedding: TokenEmbedding,
        recurrent: Recurrent,
        start: nn.Module,
        output: Output,
        *,
        summary_each_step: bool,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding, self.recurrent, self.initial, self.output = embedding, recurrent, start, output
        self.summary_each_step = summary_each_step
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> BottleneckState:
        """Raises ValueError for a memory without a summary."""
        if memory.summary is None:
            raise ValueError("a decoder without attention needs the encoder's summary; make the memory with summary=")
        recurrent = self.initial(memory).unflatten(1, self.recurrent.state_shape)
        return BottleneckState(recurrent, memory.summary if self.summary_each_step else memory.summary[:, :0])

    def run(self, tokens: Tokens, state: BottleneckState) -> tuple[States, BottleneckState]:
        embedded = self.embedding(tokens)
        joined = torch.cat([embedded, state.every_step[:, None].expand(-1, embedded.shape[1], -1)], -1)
        outputs, recurrent = self.recurrent(joined, state.recurrent)
        return self.dropout(outputs), replace(state, recurrent=recurrent)

    def features(self, tokens: Tokens, state: BottleneckState) -> States:
        return self.run(tokens, state)[0]

    def advance(self, tokens: Step, state: BottleneckState) -> tuple[Float[Tensor, "batch width"], BottleneckState]:
        outputs, state = self.run(tokens[:, None], state)
        return outputs[:, 0], state
