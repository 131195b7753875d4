"""A recurrent translator whose training runs in one pass: attention between two recurrent networks."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.scores import ScaledDot
from regard.models.aligns import AlignChoice, chosen_align
from regard.models.sizes import Share, Sides, Size
from regard.nn.decoders.initial_states import StartName, SummaryStart, choose_start
from regard.nn.decoders.one_pass import OnePassDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent, SequenceReader


@dataclass(frozen=True)
class OnePassConfig(Sides):
    """Sizes. The output layer shares the target embedding's weight; with `shared` both languages share one embedding,
    for which they need one vocabulary."""

    name: Literal["one-pass"] = "one-pass"
    width: Size = 256
    encoder_width: Size = 256
    encoder_layers: Size = 1
    heads: Size = 1
    align: AlignChoice = "softmax"
    window: Size = 10
    start: StartName = "encoder"
    shared: bool = True
    dropout: Share = 0.3


class OnePass(EncoderDecoder):
    """Bidirectional LSTM encoder; one LSTM asks, scaled dot attention reads, another LSTM goes on."""

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: OnePassConfig):
        target = TokenEmbedding(target_vocabulary, config.width, dropout=config.dropout)
        source = target if config.shared else TokenEmbedding(source_vocabulary, config.width, dropout=config.dropout)
        reader = SequenceReader(
            "lstm", config.width, config.encoder_width, config.encoder_layers, dropout=config.dropout
        )
        encoder = RecurrentEncoder(source, reader, config.dropout)
        first = Recurrent("lstm", config.width, config.width)
        second = Recurrent("lstm", 2 * config.width, config.width)

        def start() -> nn.Module:
            size = 2 * config.width
            return choose_start(config.start, SummaryStart(encoder.summary_width, size), size)

        attend = Attend(ScaledDot(), chosen_align(config.align, config.width // config.heads, config.window))
        decoder = OnePassDecoder(
            target,
            (first, second),
            MultiHead(config.width, config.heads, attend=attend, memory_width=encoder.memory_width),
            (start(), start()),
            nn.Linear(3 * config.width, config.width),
            Output(config.width, target_vocabulary, tied=target),
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
