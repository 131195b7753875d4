"""The spatial attention model of Lu, Xiong, Parikh, Socher 2017, "Knowing when to look" (1612.01887, section 2.2)."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from torch import nn

from regard.attention import Attend
from regard.attention.scores import Additive
from regard.models.aligns import AlignChoice, chosen_align
from regard.models.captioner import Captioner, Eye
from regard.models.luong import UnfedLuongDecoder
from regard.models.sizes import Size
from regard.nn.decoders.recurrent import (
    InitialStateName,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class SpatialAttentionConfig(Eye):
    """Sizes. The paper has width and attention 512. `align`, `window` and `start` are those of
    `ShowAttendAndTellConfig`: with `start: zero` or `learned` the decoder sees the image only through attention."""

    name: Literal["spatial-attention"] = "spatial-attention"
    embedding: Size = 128
    width: Size = 256
    attention: Size = 256
    align: AlignChoice = "softmax"
    window: Size = 10
    start: InitialStateName = "encoder"


class SpatialAttention(Captioner):
    """Additive attention of h_t to the cells of the image; h_t depends on the words so far, and each word is predicted
    from h_t and its context.

    The paper also feeds the image's mean to the LSTM with every word. Here the image enters through the initial state
    at most, so that an object cannot be named from an earlier read. The paper leaves open how c_t and h_t are combined;
    here as in Luong 2015.
    """

    config_class = SpatialAttentionConfig

    def __init__(self, vocabulary: int, config: SpatialAttentionConfig):
        encoder = config.encoder()
        memory = encoder.memory_width
        network = Recurrent("lstm", config.embedding, config.width)
        size = prod(network.state_shape)
        decoder = UnfedLuongDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            Attend(
                Additive(config.width, memory, config.attention),
                chosen_align(config.align, config.width, config.window),
            ),
            network,
            choose_initial_state(
                config.start, SummaryInitialState(encoder.summary_width, size), size
            ),
            nn.Linear(memory + config.width, config.width),
            Output(config.width, vocabulary),
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
