"""The Speech-Transformer: Dong, Xu, Xu 2018 (ICASSP, 10.1109/ICASSP.2018.8462506)."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.positions import RelativePositions
from regard.models.heads import SelfAlignChoice, named_attend
from regard.models.positions import POSITIONS, UnboundedName, relative_positions
from regard.models.recogniser import Ear, Recogniser
from regard.models.scores import ContentScoreName
from regard.models.sizes import Size, check_heads
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.encoders.frames import AttentionReader, FrameEncoder
from regard.nn.encoders.transformer import EncoderLayer
from regard.nn.output import Output
from regard.nn.sublayers import FeedForward, PreNorm


@dataclass(frozen=True, kw_only=True)
class SpeechTransformerConfig(Ear):
    """Sizes. `layers` are those of the encoder behind the convolutions, `decoder_layers` those of the decoder. `score`
    is that of all heads and `align` that of the reads of the sound, with `window` if it is local; `longest` is the
    most keys of a score that limits them. Relative `positions` are those of the self-attention of both sides. The
    pyramid has no part in it: `halving` is convolution."""

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
    positions: UnboundedName = "sinusoidal"

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
                own_heads(config),
                feedforward(config),
                (PreNorm(width, dropout), PreNorm(width, dropout)),
            )
            for _ in range(config.layers)
        ]
        decoders = [
            DecoderLayer(
                own_heads(config),
                heads(config, config.align),
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
        encoder = FrameEncoder(config.halved(features, width), reader, dropout)
        super().__init__(
            encoder, decoder, config.classification(encoder.memory_width, vocabulary)
        )


def own_heads(config: SpeechTransformerConfig) -> MultiHead:
    """Heads of a self-attention."""
    return heads(
        config,
        "softmax",
        relative_positions(
            config.positions, config.heads, config.width // config.heads
        ),
    )


def heads(
    config: SpeechTransformerConfig,
    align: SelfAlignChoice,
    positions: RelativePositions | None = None,
) -> MultiHead:
    """Heads of the configuration's score."""
    sizes = {"window": config.window, "longest": config.longest}
    attend = named_attend(config.width // config.heads, config.score, align, **sizes)
    return MultiHead(config.width, config.heads, attend=attend, positions=positions)


def feedforward(config: SpeechTransformerConfig) -> FeedForward:
    """The position-wise network."""
    return FeedForward(config.width, config.hidden, nn.ReLU())
