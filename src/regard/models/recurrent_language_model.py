"""The recurrent language model (Mikolov 2010; Zaremba 2014, 1409.2329), with later additions to its training."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.models.language_model import LanguageModel, make_output
from regard.models.sizes import Share, Size
from regard.models.softmax import FULL, Softmax, output_kind
from regard.nn.decoders.protocol import State
from regard.nn.embeddings import TokenEmbedding
from regard.nn.recurrent import RecurrentName, RecurrentStack
from regard.nn.sublayers import make_dropout
from regard.shapes import States, Tokens


@dataclass(frozen=True)
class RecurrentLanguageModelConfig:
    """Sizes. `tied` shares the output layer's weight with the embedding (Inan 2017, 1611.01462; Press 2017,
    1608.05859). `dropout` applies to the input of each layer and to the last output; with `variational` one mask serves
    all positions (Gal 2016, 1512.05287)."""

    name: Literal["recurrent"] = "recurrent"
    cell: RecurrentName = "lstm"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    tied: bool = True
    variational: bool = True
    dropout: Share = 0.3
    softmax: Softmax = FULL


@dataclass(frozen=True, eq=False)
class RecurrentState(State):
    """The state of all layers, `(batch, layer, state_width)`."""

    cells: Tensor


class RecurrentLanguageModel(LanguageModel[RecurrentState]):
    """h_t = f(E y_{t-1}, h_{t-1}); p(y_t) = softmax(W h_t). The state carries over from one part of a text to the
    next."""

    config_class = RecurrentLanguageModelConfig

    def __init__(self, vocabulary: int, config: RecurrentLanguageModelConfig):
        super().__init__()
        self.embedding = TokenEmbedding(vocabulary, config.embedding)
        dropout = make_dropout(config.dropout, variational=config.variational)
        self.network = RecurrentStack(
            config.cell, config.embedding, config.width, config.layers, dropout
        )
        self.readout, self.output = make_output(
            config.width, self.embedding, output_kind(config.softmax), tied=config.tied
        )

    def begin(self, batch: int) -> RecurrentState:
        return RecurrentState(self.zeros(batch, *self.network.state_shape))

    def carried(self, state: RecurrentState) -> RecurrentState:
        return state.detach()

    def run(
        self, tokens: Tokens, state: RecurrentState
    ) -> tuple[States, RecurrentState]:
        outputs, cells = self.network(self.embedding(tokens), state.cells)
        return self.readout(outputs), RecurrentState(cells)
