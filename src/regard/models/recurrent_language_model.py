"""The recurrent language model (Mikolov 2010; Zaremba 2014, 1409.2329), with what later work added to its training."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.decoders.protocol import State
from regard.layers.dropout import Dropout, VariationalDropout
from regard.layers.embeddings import TokenEmbedding
from regard.layers.output import Output
from regard.layers.recurrent import RecurrentName, RecurrentStack
from regard.models.language_model import LanguageModel
from regard.models.sizes import Share, Size
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class RecurrentLanguageModelConfig:
    """Sizes. `tied` shares the output layer's weight with the embedding (Inan 2017, 1611.01462; Press 2017,
    1608.05859). `dropout` is that of what enters each layer and of the last one's output; with `variational` the same
    units at all positions (Gal 2016, 1512.05287)."""

    name: Literal["recurrent"] = "recurrent"
    cell: RecurrentName = "lstm"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    tied: bool = True
    variational: bool = True
    dropout: Share = 0.3


@dataclass(frozen=True, eq=False)
class RecurrentState(State):
    """Of all layers: `(batch, layer, state_width)`."""

    cells: Tensor


class RecurrentLanguageModel(LanguageModel[RecurrentState]):
    """h_t = f(E y_{t-1}, h_{t-1}); p(y_t) = softmax(W h_t). State goes on from one part of a text to the next.

    Where W is the embedding's table a linear map stands before it: states between -1 and 1 alone leave the logits flat.
    """

    def __init__(self, vocabulary: int, config: RecurrentLanguageModelConfig):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, config.embedding)
        dropout = (VariationalDropout if config.variational else Dropout)(config.dropout)
        self.network = RecurrentStack(config.cell, config.embedding, config.width, config.layers, dropout)
        self.readout = nn.Linear(config.width, config.embedding) if config.tied else nn.Identity()
        width = config.embedding if config.tied else config.width
        self.output = Output(width, vocabulary, tied=self.embedding if config.tied else None)

    def begin(self, batch: int) -> RecurrentState:
        return RecurrentState(self.nothing(batch, *self.network.state_shape))

    def carried(self, state: RecurrentState) -> RecurrentState:
        return state.detach()

    def run(self, tokens: Tokens, state: RecurrentState) -> tuple[States, RecurrentState]:
        outputs, cells = self.network(self.embedding(tokens), state.cells)
        return self.readout(outputs), RecurrentState(cells)
