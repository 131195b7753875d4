"""A Transformer's decoder (Vaswani 2017, 1706.03762) over the cells of an image."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.positions import RelativePositions
from regard.models.captioner import Captioner, Eye
from regard.models.heads import SelfAlignChoice, named_attend
from regard.models.positions import POSITIONS, UnboundedName, relative_positions
from regard.models.scores import ContentScoreName
from regard.models.sizes import Size, check_heads
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.embeddings import TokenEmbedding
from regard.nn.output import Output
from regard.nn.sublayers import FeedForward, PreNorm


@dataclass(frozen=True, kw_only=True)
class GridTransformerConfig(Eye):
    """Sizes of the decoder. `score` is that of all heads, `align` that of the reads of the image, `self_align` that of
    the words. `window` is that of a local alignment, `longest` the most keys of a score that limits them. Relative
    `positions` of the words are those of their self-attention."""

    name: Literal["grid-transformer"] = "grid-transformer"
    layers: Size = 2
    width: Size = 128
    hidden: Size = 512
    heads: Size = 4
    score: ContentScoreName = "scaled-dot"
    align: SelfAlignChoice = "softmax"
    self_align: SelfAlignChoice = "softmax"
    window: Size = 10
    longest: Size = 256
    positions: UnboundedName = "sinusoidal"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(self.width, self.heads)


class GridTransformer(Captioner):
    """A captioner whose decoder layers read the words so far and then the image, both with `heads` heads."""

    config_class = GridTransformerConfig

    def __init__(self, vocabulary: int, config: GridTransformerConfig):
        width, dropout, encoder = config.width, config.dropout, config.encoder()
        layers = [
            DecoderLayer(
                heads(config, config.self_align, positions=relative(config)),
                heads(config, config.align, encoder.memory_width),
                FeedForward(width, config.hidden, nn.ReLU()),
                (
                    PreNorm(width, dropout),
                    PreNorm(width, dropout),
                    PreNorm(width, dropout),
                ),
            )
            for _ in range(config.layers)
        ]
        embedding = TokenEmbedding(vocabulary, width)
        output = Output(width, vocabulary, tied=embedding)
        positions = POSITIONS[config.positions](width, config.longest)
        decoder = TransformerDecoder(
            embedding, positions, layers, nn.LayerNorm(width), output, dropout=dropout
        )
        super().__init__(encoder, decoder)


def relative(config: GridTransformerConfig) -> RelativePositions | None:
    """The relative positions of the words, if the configuration names some."""
    return relative_positions(
        config.positions, config.heads, config.width // config.heads
    )


def heads(
    config: GridTransformerConfig,
    align: SelfAlignChoice,
    memory_width: int | None = None,
    positions: RelativePositions | None = None,
) -> MultiHead:
    """Heads of the configuration's score."""
    sizes = {"window": config.window, "longest": config.longest}
    attend = named_attend(config.width // config.heads, config.score, align, **sizes)
    return MultiHead(
        config.width,
        config.heads,
        attend=attend,
        positions=positions,
        memory_width=memory_width,
    )
