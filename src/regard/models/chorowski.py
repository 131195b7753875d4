"""The attention-based recurrent sequence generator: Chorowski, Bahdanau, Serdyuk, Cho, Bengio 2015 (1506.07503)."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.attention.history import attend_with
from regard.attention.scores import Additive
from regard.models.aligns import HISTORIES, AlignChoice, HistoryName, chosen_align
from regard.models.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.models.recogniser import Ear, Recogniser
from regard.models.sizes import Size
from regard.nn.cells import Stack
from regard.nn.decoders.recurrent import (
    InitialStateName,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoders.frames import FrameEncoder
from regard.nn.output import Output
from regard.nn.recurrent import Reader, SequenceReader


@dataclass(frozen=True, kw_only=True)
class ChorowskiConfig(Ear):
    """Sizes. The encoder ends with `layers` bidirectional GRUs of `reader` units a direction. `history: location-aware`
    is the paper's score, which convolves the last weights (equation 9); without it the score compares content only
    (equation 6). `align: monotonic` never reads back (Raffel 2017). For other alignments see `regard.attention.align`;
    `window` is for local ones. With `start: zero` or `learned` the decoder hears the sound only through attention."""

    name: Literal["chorowski"] = "chorowski"
    reader: Size = 128
    layers: Annotated[int, Field(ge=0)] = 1
    embedding: Size = 64
    width: Size = 128
    attention: Size = 128
    maxout: Size = 64
    align: AlignChoice = "softmax"
    window: Size = 10
    history: HistoryName | None = "location-aware"
    start: InitialStateName = "zero"

    def reading(self, width: int) -> Reader:
        """The part that reads the halved states of `width`, with fresh weights."""
        if not self.layers:
            return Reader((), (), width)
        return SequenceReader(
            "gru", width, self.reader, self.layers, dropout=self.dropout
        )


class Chorowski(Recogniser):
    """Additive attention of s_{i-1} and, with a history, of the weights before to the states of the sound; then s_i
    (equations 1 to 3). The decoder is Bahdanau's, whose equations the paper keeps."""

    config_class = ChorowskiConfig

    def __init__(self, vocabulary: int, features: int, config: ChorowskiConfig):
        halving = config.halved(features, 2 * config.reader)
        reader = config.reading(halving.width)
        encoder = FrameEncoder(halving, reader, config.dropout)
        memory = encoder.memory_width
        start = SummaryInitialState(encoder.summary_width, config.width)
        decoder = BahdanauDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            attend_with(
                HISTORIES[config.history](config.attention),
                Additive(config.width, memory, config.attention),
                chosen_align(config.align, config.width, config.window),
            ),
            Stack("gru", config.embedding + memory, config.width),
            choose_initial_state(config.start, start, config.width),
            MaxoutReadout(
                config.width + config.embedding + memory, config.maxout, config.dropout
            ),
            Output(config.maxout, vocabulary),
        )
        super().__init__(encoder, decoder, config.classification(memory, vocabulary))
