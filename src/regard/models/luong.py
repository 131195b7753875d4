"""The stacked LSTM with global attention and input feeding: Luong, Pham, Manning 2015 (1508.04025)."""

import math
from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention import Attend
from regard.models.aligns import AlignChoice, chosen_align
from regard.models.scores import SCORES, ScoreName
from regard.models.sizes import Share, Sides, Size
from regard.nn.cells import Stack
from regard.nn.decoders.initial_states import StartName, SummaryStart, choose_start
from regard.nn.decoders.luong import LuongDecoder, UnfedLuongDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent, SequenceReader


@dataclass(frozen=True)
class LuongConfig(Sides):
    """Sizes. The paper has embedding and width 1000, 4 layers, a one-directional encoder.

    The paper's scores are the first four; `cosine` learns its sharpness, `distance` is sqrt(width) wide. `max_source`
    bounds the source for the location score alone. With `bidirectional` each direction has half the width.
    `align` is global (softmax) or local (local-m, local-p, with `window` the paper's D) as in section 3, or another.
    Without `input_feeding` (section 3.3) the decoder's state knows nothing of what was read, and all steps of training
    run in one pass.
    """

    name: Literal["luong"] = "luong"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 2
    score: ScoreName = "general"
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    bidirectional: bool = False
    input_feeding: bool = True
    max_source: Size = 100
    align: AlignChoice = "softmax"
    window: Size = 10
    start: StartName = "encoder"
    dropout: Share = 0.2

    def __post_init__(self) -> None:
        if self.bidirectional and self.width % 2:
            raise ValueError(f"width {self.width} is odd; two directions need halves of it")


class Luong(EncoderDecoder):
    """Attention over the top layer's states, asked by the current state; the attentional vector feeds the next step.

    The decoder starts from a learned map of the encoder's final state: the paper copies it, which needs equal sizes.
    """

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: LuongConfig):
        source = TokenEmbedding(source_vocabulary, config.embedding, dropout=config.dropout)
        target = TokenEmbedding(target_vocabulary, config.embedding, dropout=config.dropout)
        width = config.width // 2 if config.bidirectional else config.width
        reader = SequenceReader(
            config.cell,
            config.embedding,
            width,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        encoder = RecurrentEncoder(source, reader, config.dropout)
        sizes = config.width, config.layers, config.dropout
        if config.input_feeding:
            network = Stack(config.cell, config.embedding + config.width, *sizes)
        else:
            network = Recurrent(config.cell, config.embedding, *sizes)
        attend = Attend(
            SCORES[config.score](config.width, config.max_source),
            chosen_align(config.align, config.width, config.window),
        )
        size = math.prod(network.state_shape)
        start = choose_start(config.start, SummaryStart(encoder.summary_width, size), size)
        combine = nn.Linear(encoder.memory_width + config.width, config.width, bias=False)
        output = Output(config.width, target_vocabulary)
        if isinstance(network, Stack):
            decoder = LuongDecoder(target, attend, network, start, combine, output, dropout=config.dropout)
        else:
            decoder = UnfedLuongDecoder(target, attend, network, start, combine, output, dropout=config.dropout)
        nn.init.xavier_uniform_(decoder.combine.weight, gain=nn.init.calculate_gain("tanh"))
        super().__init__(encoder, decoder)
        self.max_source = config.max_source if config.score == "location" else None
