"""A recurrent decoder with attention and without input feeding, so that all steps of training run in one pass."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.decoders.protocol import Decoder, State
from regard.heads import MultiHead
from regard.layers.dropout import Dropout
from regard.layers.embeddings import TokenEmbedding
from regard.layers.recurrent import Recurrent
from regard.memory import Memory
from regard.shapes import Float, States, Step, Tokens


@dataclass(frozen=True, eq=False)
class OnePassState(State):
    """The states of both networks, `(batch, layer, state_width)`, and the prepared memory."""

    asking: Tensor
    telling: Tensor
    memory: Memory


class OnePassDecoder(Decoder[OnePassState]):
    """q_t = first(E y_{t-1}); c_t reads the memory with q_t; h_t = second([q_t; c_t]).

    The attention of a step depends on the words before it but not on earlier reads; the second network carries those.
    The weights of step t belong to the word y_t that the step predicts.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        asking: Recurrent,
        attend: Attend | MultiHead,
        telling: Recurrent,
        starts: tuple[nn.Module, nn.Module],
        output: nn.Linear,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.embedding, self.asking, self.attend, self.telling = embedding, asking, attend, telling
        self.starts = nn.ModuleList(starts)
        self.output = output
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> OnePassState:
        asking, telling = (start(memory) for start in self.starts)
        return OnePassState(
            asking.unflatten(1, self.asking.state_shape),
            telling.unflatten(1, self.telling.state_shape),
            self.attend.prepare(memory),
        )

    def run(self, tokens: Tokens, state: OnePassState) -> tuple[States, OnePassState]:
        queries, asking = self.asking(self.embedding(tokens), state.asking)
        queries = self.dropout(queries)
        context = self.attend.read(queries, state.memory).context
        outputs, telling = self.telling(torch.cat([queries, context], -1), state.telling)
        return self.dropout(outputs), replace(state, asking=asking, telling=telling)

    def features(self, tokens: Tokens, state: OnePassState) -> States:
        return self.run(tokens, state)[0]

    def advance(self, tokens: Step, state: OnePassState) -> tuple[Float[Tensor, "batch width"], OnePassState]:
        outputs, state = self.run(tokens[:, None], state)
        return outputs[:, 0], state
