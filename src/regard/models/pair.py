"""Any encoder with any decoder, and an encoder of convolutions."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from torch import nn

from regard.config.loader import Discriminated, Registry
from regard.models.sizes import EncoderDecoderDefaults, Share, Size
from regard.nn.decoders import EncoderDecoder
from regard.nn.encoders import ConvolutionalEncoder
from regard.nn.layers import OpenEmbedding, TokenEmbedding

DECODERS = Registry(
    "regard.models",
    {
        "bahdanau": "bahdanau:Bahdanau",
        "luong": "luong:Luong",
        "bottleneck": "bottleneck:Bottleneck",
        "one-pass": "one_pass:OnePass",
        "pointer-generator": "pointer_generator:PointerGenerator",
        "transformer": "transformer:Transformer",
    },
)
"""Models whose decoder takes the memory of any encoder, their argument `encoder`."""
ENCODERS = Registry(
    "regard.models",
    {
        **DECODERS.locations,
        "convolutional": "pair:Convolutional",
        "span-reader": "span_reader:SpanReading",
    },
)
"""Models whose encoder any decoder takes."""
EncoderConfig = Annotated[Any, Discriminated("name", ENCODERS, "config_class")]
DecoderConfig = Annotated[Any, Discriminated("name", DECODERS, "config_class")]


@dataclass(frozen=True)
class ConvolutionalConfig:
    """The sizes of a `ConvolutionalEncoder`; `kernel` is odd."""

    name: Literal["convolutional"] = "convolutional"
    width: Size = 256
    layers: Size = 4
    kernel: Size = 3
    dropout: Share = 0.1

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(
                f"kernel {self.kernel} is even; an odd one has a position in the middle"
            )


class Convolutional(nn.Module):
    """The holder of an encoder without a decoder."""

    config_class = ConvolutionalConfig
    max_source = None

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: ConvolutionalConfig,
    ):
        super().__init__()
        embedding = TokenEmbedding(source_vocabulary, config.width)
        sizes = config.layers, config.kernel, config.dropout
        self.encoder = ConvolutionalEncoder(embedding, *sizes)


@dataclass(frozen=True, kw_only=True)
class PairConfig(EncoderDecoderDefaults):
    """The encoder of one model and the decoder of another.

    Each part has the settings of its model; settings of the other part have no effect.
    """

    name: Literal["pair"] = "pair"
    encoder: EncoderConfig
    decoder: DecoderConfig

    @property
    def one_tokenizer(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.decoder.one_tokenizer

    @property
    def copying(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.decoder.copying


class Pair(EncoderDecoder):
    """Any encoder with any decoder.

    Raises:
        InputError: The decoder's score compares vectors of one width, and the encoder's
            states have another.
    """

    config_class = PairConfig

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        config: PairConfig,
    ):
        first = ENCODERS.build(config.encoder, source_vocabulary, source_vocabulary)
        encoder = first.encoder
        second = DECODERS[config.decoder.name](
            source_vocabulary, target_vocabulary, config.decoder, encoder
        )
        if config.copying:  # a source's own words have ids past the vocabulary
            embedding = encoder.embedding
            encoder.embedding = OpenEmbedding(
                source_vocabulary,
                embedding.width,
                embedding.dropout.rate,
                embedding.scale,
            )
        super().__init__(encoder, second.decoder)
        limits = {first.max_source, second.max_source} - {None}
        self.max_source = min(limits, default=None)
        self.max_target = second.max_target
