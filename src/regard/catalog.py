"""The names of models, and what they stand for."""

from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.luong import Luong, LuongConfig
from regard.models.onepass import OnePass, OnePassConfig
from regard.models.pointer import PointerConfig, PointerGenerator
from regard.models.transformer import Transformer, TransformerConfig

ModelConfig = BahdanauConfig | LuongConfig | BottleneckConfig | OnePassConfig | PointerConfig | TransformerConfig

MODELS = {
    "bahdanau": Bahdanau,
    "luong": Luong,
    "bottleneck": Bottleneck,
    "one-pass": OnePass,
    "pointer-generator": PointerGenerator,
    "transformer": Transformer,
}


def build(config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> EncoderDecoder:
    """The model of a configuration, with fresh weights."""
    return MODELS[config.name](source_vocabulary, target_vocabulary, config)
