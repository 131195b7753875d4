"""Show and Tell: Vinyals, Toshev, Bengio, Erhan 2015 (1411.4555)."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.models.bottleneck import BottleneckDecoder
from regard.models.captioner import Captioner, Eye
from regard.models.sizes import Size
from regard.nn.decoders.recurrent import summary_of
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class ShowAndTellConfig(Eye):
    """Sizes. The paper has embedding and width 512."""

    name: Literal["show-and-tell"] = "show-and-tell"
    embedding: Size = 128
    width: Size = 256


class FirstInputInitialState(nn.Module):
    """The state after one step of `recurrent` from zeros on W summary: the source is the network's first input (Vinyals
    2015, 1411.4555, equation 10)."""

    def __init__(self, summary_width: int, input_width: int, recurrent: Recurrent):
        super().__init__()
        self.linear = nn.Linear(summary_width, input_width)
        self.recurrent = recurrent

    def forward(self, memory: Memory) -> Tensor:
        """Raises ValueError if the memory has no summary."""
        first = self.linear(summary_of(memory))[:, None]
        _, state = self.recurrent(
            first, first.new_zeros(len(first), *self.recurrent.state_shape)
        )
        return state.flatten(1)


class ShowAndTell(Captioner):
    """The image is the first input of an LSTM, x_{-1} = W CNN(I), and is not seen again (equations 10 to 12).

    The paper's CNN(I) is the last layer of a trained image classifier. Here it is the mean of the cells that Show,
    Attend and Tell reads, so that both models have the same input; for a trunk with [CLS] it is the state of [CLS].
    """

    config_class = ShowAndTellConfig

    def __init__(self, vocabulary: int, config: ShowAndTellConfig):
        encoder = config.encoder()
        recurrent = Recurrent("lstm", config.embedding, config.width)
        decoder = BottleneckDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            recurrent,
            FirstInputInitialState(encoder.summary_width, config.embedding, recurrent),
            Output(config.width, vocabulary),
            summary_each_step=False,
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
