"""Models by name, imported only when a run uses them. Other packages add theirs under the entry points of each group.

A name stands for a model's class, whose `config_class` is the dataclass of its sizes.
"""

from typing import TYPE_CHECKING, Annotated, Any

from regard.config.registry import Discriminated, Registry
from regard.text.special import SPECIAL, SpecialTokens

MODELS = Registry(
    "regard.models",
    {
        "bahdanau": "bahdanau:Bahdanau",
        "luong": "luong:Luong",
        "bottleneck": "bottleneck:Bottleneck",
        "one-pass": "one_pass:OnePass",
        "pointer-generator": "pointer_generator:PointerGenerator",
        "transformer": "transformer:Transformer",
    },
    group="regard.models",
)
CAPTIONERS = Registry(
    "regard.models",
    {
        "show-attend-and-tell": "show_attend_and_tell:ShowAttendAndTell",
        "spatial-attention": "spatial_attention:SpatialAttention",
        "show-and-tell": "show_and_tell:ShowAndTell",
        "grid-transformer": "grid_transformer:GridTransformer",
    },
    group="regard.captioners",
)
LANGUAGE_MODELS = Registry(
    "regard.models",
    {
        "recurrent": "recurrent_language_model:RecurrentLanguageModel",
        "attention": "attention_language_model:AttentionLanguageModel",
        "lstmn": "lstmn:LSTMN",
        "gpt2": "gpt2:GPT2",
        "llama": "llama:Llama",
    },
    group="regard.language_models",
)
CLASSIFIERS = Registry(
    "regard.models",
    {
        "bert": "bert:BertClassifier",
        "gpt2": "gpt2:GPT2Classifier",
        "han": "han:Han",
        "flat-attention": "han:FlatAttention",
        "rocktaschel": "rocktaschel:Rocktaschel",
        "esim": "esim:Esim",
    },
    group="regard.classifiers",
)
TAGGERS = Registry(
    "regard.models",
    {"bert": "bert:BertTagger", "recurrent-tagger": "recurrent_tagger:RecurrentTagger"},
    group="regard.taggers",
)
SPAN_MODELS = Registry(
    "regard.models",
    {"bert": "bert:BertSpans", "span-reader": "span_reader:SpanReader"},
    group="regard.span_models",
)

if TYPE_CHECKING:
    from torch import nn

    from regard.models.attention_language_model import AttentionLanguageModelConfig
    from regard.models.bahdanau import BahdanauConfig
    from regard.models.bert import BertConfig
    from regard.models.bottleneck import BottleneckConfig
    from regard.models.captioner import Captioner
    from regard.models.classifier import Classifier
    from regard.models.esim import EsimConfig
    from regard.models.gpt2 import GPT2Config
    from regard.models.grid_transformer import GridTransformerConfig
    from regard.models.han import FlatConfig, HanConfig
    from regard.models.language_model import LanguageModel
    from regard.models.llama import LlamaConfig
    from regard.models.lstmn import LSTMNConfig
    from regard.models.luong import LuongConfig
    from regard.models.one_pass import OnePassConfig
    from regard.models.pointer_generator import PointerConfig
    from regard.models.recurrent_language_model import RecurrentLanguageModelConfig
    from regard.models.recurrent_tagger import RecurrentTaggerConfig
    from regard.models.rocktaschel import RocktaschelConfig
    from regard.models.show_and_tell import ShowAndTellConfig
    from regard.models.show_attend_and_tell import ShowAttendAndTellConfig
    from regard.models.span_reader import SpanReaderConfig
    from regard.models.spatial_attention import SpatialAttentionConfig
    from regard.models.transformer import TransformerConfig
    from regard.nn.encoder_decoder import EncoderDecoder

    ModelConfig = (
        BahdanauConfig
        | LuongConfig
        | BottleneckConfig
        | OnePassConfig
        | PointerConfig
        | TransformerConfig
    )
    CaptionerConfig = (
        ShowAttendAndTellConfig
        | SpatialAttentionConfig
        | ShowAndTellConfig
        | GridTransformerConfig
    )
    LanguageModelConfig = (
        RecurrentLanguageModelConfig
        | AttentionLanguageModelConfig
        | LSTMNConfig
        | GPT2Config
        | LlamaConfig
    )
    ClassifierConfig = (
        BertConfig
        | GPT2Config
        | HanConfig
        | FlatConfig
        | RocktaschelConfig
        | EsimConfig
    )
    TaggerConfig = BertConfig | RecurrentTaggerConfig
    SpanModelConfig = BertConfig | SpanReaderConfig
else:
    ModelConfig = Annotated[Any, Discriminated("name", MODELS, "config_class")]
    CaptionerConfig = Annotated[Any, Discriminated("name", CAPTIONERS, "config_class")]
    LanguageModelConfig = Annotated[
        Any, Discriminated("name", LANGUAGE_MODELS, "config_class")
    ]
    ClassifierConfig = Annotated[
        Any, Discriminated("name", CLASSIFIERS, "config_class")
    ]
    TaggerConfig = Annotated[Any, Discriminated("name", TAGGERS, "config_class")]
    SpanModelConfig = Annotated[Any, Discriminated("name", SPAN_MODELS, "config_class")]


def build(
    config: ModelConfig,
    source_vocabulary: int,
    target_vocabulary: int,
    special: tuple[SpecialTokens, SpecialTokens] = (SPECIAL, SPECIAL),
) -> "EncoderDecoder":
    """The model of a configuration, with fresh weights. `special` are the special ids of source and target."""
    model = MODELS[config.name](source_vocabulary, target_vocabulary, config)
    model.source_special, model.decoder.special = special
    return model


def build_language_model(
    config: LanguageModelConfig, vocabulary: int, special: SpecialTokens = SPECIAL
) -> "LanguageModel":
    """The language model of a configuration, with fresh weights, for a vocabulary with these special ids."""
    model = LANGUAGE_MODELS[config.name](vocabulary, config)
    model.special = special
    return model


def build_classifier(
    config: ClassifierConfig, vocabulary: int, classes: int
) -> "Classifier":
    """The classifier of a configuration for `classes` classes, with fresh weights."""
    return CLASSIFIERS[config.name](vocabulary, classes, config)


def build_captioner(config: CaptionerConfig, vocabulary: int) -> "Captioner":
    """The captioner of a configuration, with fresh weights."""
    return CAPTIONERS[config.name](vocabulary, config)


def build_tagger(config: TaggerConfig, vocabulary: int, tags: int) -> "nn.Module":
    """The tagger of a configuration, with fresh weights: its `forward` takes tokens `(batch, position)`, padded on the
    right, and lengths `(batch,)`, and gives logits `(batch, position, tag)`, computed by its `output`."""
    return TAGGERS[config.name](vocabulary, tags, config)


def build_span_model(config: SpanModelConfig, vocabulary: int) -> "nn.Module":
    """The span model of a configuration, with fresh weights: its `forward` takes windows in its `form`, and gives
    logits `(batch, position, 2)` of the answer's first and last token; position 0 stands for no answer."""
    return SPAN_MODELS[config.name](vocabulary, config)
