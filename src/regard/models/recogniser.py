"""The recogniser of speech of Chorowski et al. 2015 (1506.07503)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import NonNegativeInt

from regard.attention.scores import Additive
from regard.models.attention import (
    HISTORIES,
    AlignConfig,
    HistoryName,
    make_attend,
)
from regard.models.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.models.sizes import Share, Size
from regard.nn.decoders import (
    EncoderDecoder,
    InitialStateName,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.encoders import FrameEncoder, SubsamplingConvolutions
from regard.nn.layers import Output, TokenEmbedding
from regard.nn.output import Connectionist
from regard.nn.recurrent import BidirectionalReader, SequenceReader, Stack


@dataclass(frozen=True, kw_only=True)
class ChorowskiConfig(AlignConfig):
    """The sizes and options of `Chorowski`.

    The encoder halves time once a stage by convolutions, whose widths are `stages`, and
    ends with `layers` bidirectional GRUs of `reader` units a direction. `history:
    location-aware` is the paper's score, which convolves the last weights (equation 9);
    without it the score compares content only (equation 6). `align: monotonic` never
    reads back (Raffel 2017). For other alignments see `regard.attention.align`.
    With `start: zero` or `learned` the decoder hears the
    sound only through attention. `ctc` is the weight of the loss of connectionist
    temporal classification on the encoder's states in training; that of the decoder's
    loss is 1 - `ctc`.
    """

    name: Literal["chorowski"] = "chorowski"
    stages: tuple[Size, ...] = (32, 32)
    dropout: Share = 0.1
    ctc: Share = 0.0
    reader: Size = 128
    layers: NonNegativeInt = 1
    embedding: Size = 64
    width: Size = 128
    attention: Size = 128
    maxout: Size = 64
    history: HistoryName | None = "location-aware"
    start: InitialStateName = "zero"

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; name the width of at least one")


class Chorowski(EncoderDecoder):
    """Additive attention of s_{i-1} to the states of the sound; then s_i.

    With a history, the weights before are read as well (equations 1 to 3). The decoder
    is Bahdanau's, whose equations the paper keeps. `connectionist` is only for
    training.
    """

    config_class = ChorowskiConfig

    def __init__(self, vocabulary: int, features: int, config: ChorowskiConfig):
        width = 2 * config.reader
        convolutions = SubsamplingConvolutions(features, config.stages, width)
        reader = BidirectionalReader((), (), width)
        if config.layers:
            reader = SequenceReader(
                "gru", width, config.reader, config.layers, dropout=config.dropout
            )
        encoder = FrameEncoder(convolutions, reader, config.dropout)
        memory = encoder.memory_width
        start = SummaryInitialState(memory, config.width)
        decoder = BahdanauDecoder(
            TokenEmbedding(vocabulary, config.embedding, config.dropout),
            make_attend(
                Additive(config.width, memory, config.attention),
                config.build_align(config.width),
                HISTORIES[config.history](config.attention),
            ),
            Stack("gru", config.embedding + memory, config.width),
            choose_initial_state(config.start, start, config.width),
            MaxoutReadout(
                config.width + config.embedding + memory, config.maxout, config.dropout
            ),
            Output(config.maxout, vocabulary),
        )
        super().__init__(encoder, decoder)
        self.connectionist = Connectionist(memory, vocabulary) if config.ctc else None
