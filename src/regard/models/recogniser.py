"""Speech recognisers.

Their base class, Chorowski et al. 2015 and the Speech-Transformer.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.attention.history import make_attend
from regard.attention.scores import Additive
from regard.models.attention import (
    HISTORIES,
    POSITIONS,
    AlignChoice,
    ContentScoreName,
    HistoryName,
    SelfAlignChoice,
    UnboundedPositionsName,
    build_align,
    build_heads,
)
from regard.models.bahdanau import BahdanauDecoder, MaxoutReadout
from regard.models.sizes import Share, Size, check_heads
from regard.nn.decoders import (
    Decoder,
    InitialStateName,
    SummaryInitialState,
    choose_initial_state,
)
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoder_decoder import decode_target
from regard.nn.encoders import (
    AttentionReader,
    FrameEncoder,
    Pyramid,
    Subsampling,
    SubsamplingConvolutions,
)
from regard.nn.layers import FeedForward, PreNorm
from regard.nn.output import Connectionist, Output
from regard.nn.recurrent import BidirectionalReader, SequenceReader, Stack
from regard.nn.transformer import DecoderLayer, EncoderLayer, TransformerDecoder
from regard.shapes import Float, Lengths, Tokens


@dataclass(frozen=True, kw_only=True)
class SpeechEncoderConfig:
    """The part of every recogniser's configuration that describes how its encoder halves time, once a stage.

    With `halving: convolution` the `stages` are widths of convolutions, with `pyramid`
    widths of bidirectional LSTMs, a direction. `ctc` is the weight of the loss of
    connectionist temporal classification on the encoder's states in training; that of
    the decoder's loss is 1 - `ctc`.
    """

    halving: Literal["convolution", "pyramid"] = "convolution"
    stages: tuple[Size, ...] = (32, 32)
    dropout: Share = 0.1
    ctc: Share = 0.0

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; name the width of at least one")

    def classification(self, width: int, vocabulary: int) -> Connectionist | None:
        """Return the part of the loss `ctc` for states of `width`, with fresh weights.

        None without this loss.
        """
        return Connectionist(width, vocabulary) if self.ctc else None

    def build_subsampling(self, features: int, width: int) -> Subsampling:
        """Return the part that halves time, with fresh weights.

        Convolutions end with `width`.
        """
        if self.halving == "pyramid":
            return Pyramid(features, self.stages)
        return SubsamplingConvolutions(features, self.stages, width)


class Recogniser(nn.Module):
    """p(transcript | frames) as the product over positions of softmax(output(features)).

    `connectionist` is only for training.
    """

    def __init__(
        self,
        encoder: FrameEncoder,
        decoder: Decoder,
        connectionist: Connectionist | None = None,
    ):
        super().__init__()
        self.encoder, self.decoder, self.connectionist = encoder, decoder, connectionist

    def features(
        self,
        frames: Float[Tensor, "batch frame feature"],
        lengths: Lengths,
        target: Tokens,
        forcing: float = 1.0,
    ) -> Any:
        """Return the input of the output layer for frames and a right-shifted target.

        Frames have `lengths (batch,)`; the target `(batch, position)` begins with the
        start token.

        `forcing` is the probability of teacher forcing at each step.
        """
        return decode_target(
            self.decoder, self.encoder(frames, lengths), target, forcing
        )

    def forward(
        self,
        frames: Float[Tensor, "batch frame feature"],
        lengths: Lengths,
        target: Tokens,
        *,
        forcing: float = 1.0,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Logits `(batch, position, vocabulary)` of the token after each target token."""
        return self.decoder.output(self.features(frames, lengths, target, forcing))


@dataclass(frozen=True, kw_only=True)
class ChorowskiConfig(SpeechEncoderConfig):
    """Sizes.

    The encoder ends with `layers` bidirectional GRUs of `reader` units a direction.
    `history: location-aware` is the paper's score, which convolves the last weights
    (equation 9); without it the score compares content only (equation 6). `align:
    monotonic` never reads back (Raffel 2017). For other alignments see
    `regard.attention.align`; `window` is for local ones. With `start: zero` or
    `learned` the decoder hears the sound only through attention.
    """

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

    def reading(self, width: int) -> BidirectionalReader:
        """Return the part that reads the halved states of `width`, with fresh weights."""
        if not self.layers:
            return BidirectionalReader((), (), width)
        return SequenceReader(
            "gru", width, self.reader, self.layers, dropout=self.dropout
        )


class Chorowski(Recogniser):
    """Additive attention of s_{i-1} to the states of the sound; then s_i.

    With a history, the weights before are read as well (equations 1 to 3).

    The decoder is Bahdanau's, whose equations the paper keeps.
    """

    config_class = ChorowskiConfig

    def __init__(self, vocabulary: int, features: int, config: ChorowskiConfig):
        halving = config.build_subsampling(features, 2 * config.reader)
        reader = config.reading(halving.width)
        encoder = FrameEncoder(halving, reader, config.dropout)
        memory = encoder.memory_width
        start = SummaryInitialState(encoder.summary_width, config.width)
        decoder = BahdanauDecoder(
            TokenEmbedding(vocabulary, config.embedding, dropout=config.dropout),
            make_attend(
                HISTORIES[config.history](config.attention),
                Additive(config.width, memory, config.attention),
                build_align(config.align, config.width, config.window),
            ),
            Stack("gru", config.embedding + memory, config.width),
            choose_initial_state(config.start, start, config.width),
            MaxoutReadout(
                config.width + config.embedding + memory, config.maxout, config.dropout
            ),
            Output(config.maxout, vocabulary),
        )
        super().__init__(encoder, decoder, config.classification(memory, vocabulary))


@dataclass(frozen=True, kw_only=True)
class SpeechTransformerConfig(SpeechEncoderConfig):
    """Sizes.

    `layers` are those of the encoder behind the convolutions, `decoder_layers` those of
    the decoder. `score` is that of all heads and `align` that of the reads of the
    sound, with `window` if it is local; `longest` is the most keys of a score that
    limits them. Relative `positions` are those of the self-attention of both sides. The
    pyramid has no part in it: `halving` is convolution.
    """

    name: Literal["speech-transformer"] = "speech-transformer"
    layers: Size = 3
    decoder_layers: Size = 2
    width: Size = 128
    hidden: Size = 512
    heads: Size = 4
    score: ContentScoreName = "scaled-dot"
    align: SelfAlignChoice = "softmax"
    window: Size = 10
    longest: Size = 256
    positions: UnboundedPositionsName = "sinusoidal"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.width, self.heads)
        if self.halving != "convolution":
            raise ValueError(
                "model.halving is pyramid; a speech-transformer halves time by convolution"
            )


class SpeechTransformer(Recogniser):
    """Convolutions that halve time and frequency, self-attention over their states, and a Transformer's decoder."""

    config_class = SpeechTransformerConfig

    def __init__(self, vocabulary: int, features: int, config: SpeechTransformerConfig):
        width, dropout = config.width, config.dropout
        layers = [
            EncoderLayer(
                build_heads(
                    config, "softmax", config.longest, positions=config.positions
                ),
                feedforward(config),
                (PreNorm(width, dropout), PreNorm(width, dropout)),
            )
            for _ in range(config.layers)
        ]
        decoders = [
            DecoderLayer(
                build_heads(
                    config, "softmax", config.longest, positions=config.positions
                ),
                build_heads(config, config.align, config.longest),
                feedforward(config),
                (
                    PreNorm(width, dropout),
                    PreNorm(width, dropout),
                    PreNorm(width, dropout),
                ),
            )
            for _ in range(config.decoder_layers)
        ]
        positions = POSITIONS[config.positions](width, config.longest)
        reader = AttentionReader(width, positions, layers, nn.LayerNorm(width))
        embedding = TokenEmbedding(vocabulary, width)
        output = Output(width, vocabulary, tied=embedding)
        positions = POSITIONS[config.positions](width, config.longest)
        decoder = TransformerDecoder(
            embedding, positions, decoders, nn.LayerNorm(width), output, dropout=dropout
        )
        encoder = FrameEncoder(
            config.build_subsampling(features, width), reader, dropout
        )
        super().__init__(
            encoder, decoder, config.classification(encoder.memory_width, vocabulary)
        )


def feedforward(config: SpeechTransformerConfig) -> FeedForward:
    """Return the position-wise network."""
    return FeedForward(config.width, config.hidden, nn.ReLU())
