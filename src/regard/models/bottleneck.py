"""The encoder-decoder without attention: Sutskever, Vinyals, Le 2014 (1409.3215) and Cho et al. 2014 (1406.1078)."""

from dataclasses import dataclass
from typing import Literal

from regard.models.sizes import Share, Sides, Size
from regard.nn.decoders.bottleneck import BottleneckDecoder
from regard.nn.decoders.initial_states import SummaryStart
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import EncoderDecoder
from regard.nn.encoders.recurrent import RecurrentEncoder
from regard.nn.output import Output
from regard.nn.recurrent import Recurrent, SequenceReader


@dataclass(frozen=True)
class BottleneckConfig(Sides):
    """Sizes. `summary: start` starts the decoder from the encoder's final state; `every-step` also feeds it each step.

    Sutskever 2014 has 4 LSTM layers of width 1000; Cho 2014 one gated layer of width 1000, `every-step`.
    """

    name: Literal["bottleneck"] = "bottleneck"
    embedding: Size = 256
    width: Size = 256
    layers: Size = 1
    cell: Literal["tanh", "gru", "lstm"] = "lstm"
    bidirectional: bool = False
    summary: Literal["start", "every-step"] = "start"
    dropout: Share = 0.0


class Bottleneck(EncoderDecoder):
    """Everything the decoder knows of the source goes through one vector."""

    def __init__(self, source_vocabulary: int, target_vocabulary: int, config: BottleneckConfig):
        source = TokenEmbedding(source_vocabulary, config.embedding, dropout=config.dropout)
        target = TokenEmbedding(target_vocabulary, config.embedding, dropout=config.dropout)
        reader = SequenceReader(
            config.cell,
            config.embedding,
            config.width,
            config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        encoder = RecurrentEncoder(source, reader, config.dropout)
        each_step = config.summary == "every-step"
        input_width = config.embedding + (encoder.summary_width if each_step else 0)
        recurrent = Recurrent(config.cell, input_width, config.width, config.layers, config.dropout)
        layers, state_width = recurrent.state_shape
        decoder = BottleneckDecoder(
            target,
            recurrent,
            SummaryStart(encoder.summary_width, layers * state_width),
            Output(config.width, target_vocabulary),
            summary_each_step=each_step,
            dropout=config.dropout,
        )
        super().__init__(encoder, decoder)
