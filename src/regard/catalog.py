"""The names of models, and what they stand for."""

from regard.models.attention_language_model import AttentionLanguageModel, AttentionLanguageModelConfig
from regard.models.bahdanau import Bahdanau, BahdanauConfig
from regard.models.bert import BertConfig
from regard.models.bert_classifier import BertClassifier
from regard.models.bottleneck import Bottleneck, BottleneckConfig
from regard.models.captioner import Captioner
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.grid_transformer import GridTransformer, GridTransformerConfig
from regard.models.han import FlatAttention, FlatConfig, Han, HanConfig
from regard.models.language_model import LanguageModel
from regard.models.lstmn import LSTMN, LSTMNConfig
from regard.models.luong import Luong, LuongConfig
from regard.models.onepass import OnePass, OnePassConfig
from regard.models.pointer import PointerConfig, PointerGenerator
from regard.models.recurrent_language_model import RecurrentLanguageModel, RecurrentLanguageModelConfig
from regard.models.rocktaschel import Rocktaschel, RocktaschelConfig
from regard.models.show_and_tell import ShowAndTell, ShowAndTellConfig
from regard.models.show_attend_and_tell import ShowAttendAndTell, ShowAttendAndTellConfig
from regard.models.transformer import Transformer, TransformerConfig

ModelConfig = BahdanauConfig | LuongConfig | BottleneckConfig | OnePassConfig | PointerConfig | TransformerConfig
CaptionerConfig = ShowAttendAndTellConfig | ShowAndTellConfig | GridTransformerConfig
LanguageModelConfig = RecurrentLanguageModelConfig | AttentionLanguageModelConfig | LSTMNConfig | GPT2Config
ClassifierConfig = BertConfig | HanConfig | FlatConfig | RocktaschelConfig
Classifier = BertClassifier | Han | FlatAttention | Rocktaschel

MODELS = {
    "bahdanau": Bahdanau,
    "luong": Luong,
    "bottleneck": Bottleneck,
    "one-pass": OnePass,
    "pointer-generator": PointerGenerator,
    "transformer": Transformer,
}
CAPTIONERS = {
    "show-and-tell": ShowAndTell,
    "show-attend-and-tell": ShowAttendAndTell,
    "grid-transformer": GridTransformer,
}
LANGUAGE_MODELS = {
    "recurrent": RecurrentLanguageModel,
    "attention": AttentionLanguageModel,
    "lstmn": LSTMN,
    "gpt2": GPT2,
}
CLASSIFIERS = {
    "bert": BertClassifier,
    "han": Han,
    "flat-attention": FlatAttention,
    "rocktaschel": Rocktaschel,
}


def build(config: ModelConfig, source_vocabulary: int, target_vocabulary: int) -> EncoderDecoder:
    """The model of a configuration, with fresh weights."""
    return MODELS[config.name](source_vocabulary, target_vocabulary, config)


def build_language_model(config: LanguageModelConfig, vocabulary: int) -> LanguageModel:
    """The language model of a configuration, with fresh weights."""
    return LANGUAGE_MODELS[config.name](vocabulary, config)


def build_classifier(config: ClassifierConfig, vocabulary: int, classes: int) -> Classifier:
    """The model of a configuration that tells so many classes, with fresh weights."""
    return CLASSIFIERS[config.name](vocabulary, classes, config)


def build_captioner(config: CaptionerConfig, vocabulary: int) -> Captioner:
    """The model of a configuration that tells of images, with fresh weights."""
    return CAPTIONERS[config.name](vocabulary, config)
