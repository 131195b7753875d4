"""The Transformer: Vaswani et al. 2017 (1706.03762)."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.heads import MultiHead
from regard.models.attention import (
    POSITIONS,
    AlignChoice,
    AttentionConfig,
    PositionsName,
    SelfAlignChoice,
)
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import Encoder, EncoderDecoder
from regard.nn.layers import (
    EncoderLayer,
    FeedForward,
    Output,
    Positions,
    PostNorm,
    PreNorm,
    Residual,
    TokenEmbedding,
)
from regard.nn.transformer import DecoderLayer, TransformerDecoder, TransformerEncoder


@dataclass(frozen=True)
class TransformerConfig(EncoderDecoderDefaults, AttentionConfig):
    """The sizes and options of `Transformer`.

    The paper's base model has 6 layers, width 512, hidden 2048, 8 heads, dropout 0.1
    and `norm: after`.

    `key_value_heads`: heads of keys and values that the `heads` share (Ainslie 2023, 2305.13245); None for as many as
    `heads`. `tied` shares the output layer's weight with the target embedding. `shared` makes both languages share one
    embedding and one vocabulary. `scaled` multiplies embeddings by sqrt(width). `max_length` limits the positions
    `learned` and `sines-then-cosines`. `align` is that of the cross-attention (see `regard.attention.align`) and
    `self_align` that of both self-attentions. Relative `positions` are those of the self-attentions. `decoder_layers`:
    None for as many as `layers`. `activation` is that of the position-wise network. The paper's code has an
    `attention_dropout` of 0.1.
    """

    name: Literal["transformer"] = "transformer"
    layers: Size = 3
    hidden: Size = 1024
    key_value_heads: Size | None = None
    norm: Literal["before", "after"] = "before"
    positions: PositionsName = "sinusoidal"
    max_length: Size = 256
    tied: bool = True
    shared: bool = True
    dropout: Share = 0.1
    decoder_layers: Size | None = None
    activation: Literal["relu", "gelu", "swish"] = "relu"
    scaled: bool = True
    self_align: SelfAlignChoice = "softmax"

    def __post_init__(self) -> None:
        if self.heads % (self.key_value_heads or self.heads):
            raise ValueError(
                f"heads {self.heads} is not divisible by key_value_heads {self.key_value_heads}; choose a divisor"
            )
        super().__post_init__()


class Transformer(EncoderDecoder):
    """Self-attention on both sides, cross-attention between them."""

    config_class = TransformerConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: TransformerConfig,
        encoder: Encoder | None = None,
    ):
        scale = None if config.scaled else 1.0
        target = TokenEmbedding(target_vocabulary, config.width, scale=scale)
        source = target
        if not config.shared:
            source = TokenEmbedding(source_vocabulary, config.width, scale=scale)

        def attention(
            align: AlignChoice, positions: str = "none", memory_width: int | None = None
        ) -> MultiHead:
            return config.build_heads(
                config.max_length,
                align=align,
                positions=positions,
                key_value_heads=config.key_value_heads,
                memory_width=memory_width,
            )

        def feedforward() -> FeedForward:
            return FeedForward(config.width, config.hidden, activation())

        def residuals(count: int) -> list[Residual]:
            return [norm(config.width, config.dropout) for _ in range(count)]

        norm = {"before": PreNorm, "after": PostNorm}[config.norm]
        names = {"relu": nn.ReLU, "gelu": nn.GELU, "swish": nn.SiLU}
        activation = names[config.activation]
        positions = POSITIONS[config.positions]
        encoder_layers = []
        for _ in range(config.layers):
            heads = attention(config.self_align, config.positions)
            encoder_layers.append(EncoderLayer(heads, feedforward(), residuals(2)))
        decoder_layers = []
        for _ in range(config.decoder_layers or config.layers):
            heads = attention(config.self_align, config.positions)
            cross = attention(
                config.align, memory_width=encoder and encoder.memory_width
            )
            layer = DecoderLayer(heads, cross, feedforward(), residuals(3))
            decoder_layers.append(layer)
        is_last = config.norm == "before"

        def ends() -> tuple[Positions, nn.Module]:
            last = nn.LayerNorm(config.width) if is_last else nn.Identity()
            return positions(config.width, config.max_length), last

        first, last = ends()
        encoder = encoder or TransformerEncoder(
            source, first, encoder_layers, last, config.dropout
        )
        tied = target if config.tied else None
        output = Output(config.width, target_vocabulary, tied)
        first, last = ends()
        decoder = TransformerDecoder(
            target, first, decoder_layers, last, output, dropout=config.dropout
        )
        super().__init__(encoder, decoder)
        bounded = config.positions in ("learned", "sines-then-cosines")
        self.max_source = self.max_target = config.max_length if bounded else None
