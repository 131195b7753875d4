"""A Transformer's decoder (Vaswani 2017, 1706.03762) over the cells of an image."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.models.captioner import Captioner, Eye
from regard.models.heads import SelfAlignChoice, named_attend
from regard.models.scores import ContentScoreName
from regard.models.sizes import Size, check_heads
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.embeddings import Sinusoidal, TokenEmbedding
from regard.nn.output import Output
from regard.nn.sublayers import FeedForward, PreNorm


@dataclass(frozen=True, kw_only=True)
class GridTransformerConfig(Eye):
    """Sizes of the decoder. `score` is that of all heads, `align` that of the reads of the image, `self_align` that of
    the words. `window` is that of a local alignment, `longest` the most keys of a score that limits them."""

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
                heads(config, config.self_align),
                heads(config, config.align, encoder.memory_width),
                FeedForward(width, config.hidden, nn.ReLU()),
                (PreNorm(width, dropout), PreNorm(width, dropout), PreNorm(width, dropout)),
            )
            for _ in range(config.layers)
        ]
        embedding = TokenEmbedding(vocabulary, width)
        output = Output(width, vocabulary, tied=embedding)
        decoder = TransformerDecoder(embedding, Sinusoidal(), layers, nn.LayerNorm(width), output, dropout=dropout)
        super().__init__(encoder, decoder)


def heads(config: GridTransformerConfig, align: SelfAlignChoice, memory_width: int | None = None) -> MultiHead:
    """Heads of the configuration's score."""
    head_width = config.width // config.heads
    attend = named_attend(head_width, config.score, align, window=config.window, longest=config.longest)
    return MultiHead(config.width, config.heads, attend=attend, memory_width=memory_width)
