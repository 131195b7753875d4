"""The recogniser of speech of Chorowski et al. 2015 (1506.07503)."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import nn

from regard.attention.history import make_attend
from regard.attention.scores import Additive
from regard.models.attention import (
    HISTORIES,
    AlignChoice,
    HistoryName,
    build_align,
)
from regard.models.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.models.sizes import Share, Size
from regard.nn.decoders import (
    InitialStateName,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import decode_target
from regard.nn.encoders import FrameEncoder, Frames, SubsamplingConvolutions
from regard.nn.output import Connectionist, Output
from regard.nn.recurrent import BidirectionalReader, SequenceReader, Stack
from regard.shapes import Lengths, Logits, Tokens


@dataclass(frozen=True, kw_only=True)
class ChorowskiConfig:
    """Sizes.

    The encoder halves time once a stage by convolutions, whose widths are `stages`, and
    ends with `layers` bidirectional GRUs of `reader` units a direction. `history:
    location-aware` is the paper's score, which convolves the last weights (equation 9);
    without it the score compares content only (equation 6). `align: monotonic` never
    reads back (Raffel 2017). For other alignments see `regard.attention.align`;
    `window` is for local ones. With `start: zero` or `learned` the decoder hears the
    sound only through attention. `ctc` is the weight of the loss of connectionist
    temporal classification on the encoder's states in training; that of the decoder's
    loss is 1 - `ctc`.
    """

    name: Literal["chorowski"] = "chorowski"
    stages: tuple[Size, ...] = (32, 32)
    dropout: Share = 0.1
    ctc: Share = 0.0
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

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; name the width of at least one")


class Chorowski(nn.Module):
    """Additive attention of s_{i-1} to the states of the sound; then s_i.

    With a history, the weights before are read as well (equations 1 to 3). The decoder
    is Bahdanau's, whose equations the paper keeps. `connectionist` is only for
    training.
    """

    config_class = ChorowskiConfig

    def __init__(self, vocabulary: int, features: int, config: ChorowskiConfig):
        super().__init__()
        width = 2 * config.reader
        convolutions = SubsamplingConvolutions(features, config.stages, width)
        reader = BidirectionalReader((), (), width)
        if config.layers:
            reader = SequenceReader(
                "gru", width, config.reader, config.layers, dropout=config.dropout
            )
        self.encoder = FrameEncoder(convolutions, reader, config.dropout)
        memory = self.encoder.memory_width
        start = SummaryInitialState(memory, config.width)
        self.decoder = BahdanauDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            make_attend(
                Additive(config.width, memory, config.attention),
                build_align(config.align, config.width, config.window),
                HISTORIES[config.history](config.attention),
            ),
            Stack("gru", config.embedding + memory, config.width),
            choose_initial_state(config.start, start, config.width),
            MaxoutReadout(
                config.width + config.embedding + memory, config.maxout, config.dropout
            ),
            Output(config.maxout, vocabulary),
        )
        self.connectionist = Connectionist(memory, vocabulary) if config.ctc else None

    def features(
        self,
        frames: Frames,
        lengths: Lengths,
        target: Tokens,
        forcing: float = 1.0,
    ) -> Any:
        """Return the input of the output layer for frames and a right-shifted target.

        Args:
            frames: `(batch, frame, feature)`.
            lengths: `(batch,)`, in frames.
            target: `(batch, position)`, which begins with the start token.
            forcing: The probability of teacher forcing at each step.
        """
        memory = self.encoder(frames, lengths)
        return decode_target(self.decoder, memory, target, forcing)

    def forward(
        self,
        frames: Frames,
        lengths: Lengths,
        target: Tokens,
        *,
        forcing: float = 1.0,
    ) -> Logits:
        """Logits `(batch, position, vocabulary)` of the token after each target token."""
        return self.decoder.output(self.features(frames, lengths, target, forcing))
