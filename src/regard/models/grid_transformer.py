"""A Transformer's decoder (Vaswani 2017, 1706.03762) over the cells of an image."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.models.captioner import Captioner, Eye
from regard.models.sizes import Size, check_heads
from regard.nn.decoders.transformer import DecoderLayer, TransformerDecoder
from regard.nn.embeddings import Sinusoidal, TokenEmbedding
from regard.nn.output import Output
from regard.nn.sublayers import FeedForward, PreNorm


@dataclass(frozen=True, kw_only=True)
class GridTransformerConfig(Eye):
    """Sizes of the decoder."""

    name: Literal["grid-transformer"] = "grid-transformer"
    layers: Size = 2
    width: Size = 128
    hidden: Size = 512
    heads: Size = 4

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
                MultiHead(width, config.heads),
                MultiHead(width, config.heads, memory_width=encoder.memory_width),
                FeedForward(width, config.hidden, nn.ReLU()),
                (PreNorm(width, dropout), PreNorm(width, dropout), PreNorm(width, dropout)),
            )
            for _ in range(config.layers)
        ]
        embedding = TokenEmbedding(vocabulary, width)
        output = Output(width, vocabulary, tied=embedding)
        decoder = TransformerDecoder(embedding, Sinusoidal(), layers, nn.LayerNorm(width), output, dropout=dropout)
        super().__init__(encoder, decoder)
