"""Show, Attend and Tell: Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio 2015 (1502.03044)."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from regard.attention import Attend
from regard.attention.scores import Additive
from regard.models.aligns import AlignChoice, chosen_align
from regard.models.captioner import Captioner, Eye
from regard.models.sizes import Size
from regard.nn.cells import Stack
from regard.nn.decoders.gated import DeepOutput, GatedDecoder
from regard.nn.decoders.initial_states import StartName, SummaryStart, choose_start
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output


@dataclass(frozen=True, kw_only=True)
class ShowAttendAndTellConfig(Eye):
    """Sizes. `align: softmax` is the paper's soft attention, for which `attention_losses.doubly_stochastic` is meant
    (equation 14), and `align: hard` its stochastic one, with `attention_losses.draw_entropy` (section 4.1). Others are
    in `regard.attention.align`; `window` is that of the local ones. With `start: zero` or `learned` the decoder knows
    nothing of the image but what it reads."""

    name: Literal["show-attend-and-tell"] = "show-attend-and-tell"
    embedding: Size = 128
    width: Size = 256
    attention: Size = 256
    align: AlignChoice = "softmax"
    window: Size = 10
    start: StartName = "encoder"


class ShowAttendAndTell(Captioner):
    """Additive attention of h_{t-1} to the cells of the image, a gate on what it reads, a deep output; h_0 and c_0 come
    of the cells' mean, or of a trunk's [CLS], through one layer with a tanh each (the paper says an MLP and not how
    deep)."""

    def __init__(self, vocabulary: int, config: ShowAttendAndTellConfig):
        encoder = config.encoder()
        memory = encoder.memory_width
        stack = Stack("lstm", config.embedding + memory, config.width)
        size = prod(stack.state_shape)
        decoder = GatedDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            Attend(
                Additive(config.width, memory, config.attention),
                chosen_align(config.align, config.width, config.window),
            ),
            stack,
            choose_start(config.start, SummaryStart(encoder.summary_width, size), size),
            DeepOutput(config.embedding, config.width, memory, config.dropout),
            Output(config.embedding, vocabulary),
        )
        super().__init__(encoder, decoder)
