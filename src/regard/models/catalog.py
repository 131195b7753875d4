"""Models by name, imported only when a run uses them.

Other packages add theirs under the entry points of each group.

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
        "pretrained": "pretrained:PretrainedSeq2Seq",
    },
    group="regard.models",
)
CAPTIONERS = Registry(
    "regard.models",
    {
        "show-attend-and-tell": "show_attend_and_tell:ShowAttendAndTell",
        "show-and-tell": "captioner:ShowAndTell",
        "grid-transformer": "captioner:GridTransformer",
    },
    group="regard.captioners",
)
LANGUAGE_MODELS = Registry(
    "regard.models",
    {
        "recurrent": "language_model:RecurrentLanguageModel",
        "attention": "attention_language_model:AttentionLanguageModel",
        "lstmn": "lstmn:LSTMN",
        "gpt2": "gpt2:GPT2",
        "llama": "llama:Llama",
        "pretrained": "pretrained:PretrainedLanguageModel",
    },
    group="regard.language_models",
)
MASKED_MODELS = Registry(
    "regard.models",
    {"bert": "bert:Bert", "pretrained": "pretrained:PretrainedMaskedLM"},
    group="regard.masked_models",
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
        "pretrained": "pretrained:PretrainedClassifier",
    },
    group="regard.classifiers",
)
TAGGERS = Registry(
    "regard.models",
    {
        "bert": "bert:BertTagger",
        "recurrent-tagger": "classifier:RecurrentTagger",
        "pretrained": "pretrained:PretrainedTagger",
    },
    group="regard.taggers",
)
SPAN_MODELS = Registry(
    "regard.models",
    {
        "bert": "bert:BertSpans",
        "span-reader": "span_reader:SpanReader",
        "pretrained": "pretrained:PretrainedSpans",
    },
    group="regard.span_models",
)
IMAGE_CLASSIFIERS = Registry(
    "regard.models",
    {"vit": "vit:Vit", "pretrained": "pretrained:PretrainedVision"},
    group="regard.image_classifiers",
)

if TYPE_CHECKING:
    from torch import nn

    from regard.models.captioner import Captioner
    from regard.models.classifier import Classifier
    from regard.models.language_model import LanguageModel
    from regard.nn.encoder_decoder import EncoderDecoder

ModelConfig = Annotated[Any, Discriminated("name", MODELS, "config_class")]
CaptionerConfig = Annotated[Any, Discriminated("name", CAPTIONERS, "config_class")]
LanguageModelConfig = Annotated[
    Any, Discriminated("name", LANGUAGE_MODELS, "config_class")
]
ClassifierConfig = Annotated[Any, Discriminated("name", CLASSIFIERS, "config_class")]
MaskedModelConfig = Annotated[Any, Discriminated("name", MASKED_MODELS, "config_class")]
TaggerConfig = Annotated[Any, Discriminated("name", TAGGERS, "config_class")]
SpanModelConfig = Annotated[Any, Discriminated("name", SPAN_MODELS, "config_class")]
ImageClassifierConfig = Annotated[
    Any, Discriminated("name", IMAGE_CLASSIFIERS, "config_class")
]


def build(
    config: ModelConfig,
    source_vocabulary: int,
    target_vocabulary: int,
    special: tuple[SpecialTokens, SpecialTokens] = (SPECIAL, SPECIAL),
) -> "EncoderDecoder":
    """Return the model of a configuration, with fresh weights.

    `special` are the special ids of source and target.
    """
    model = MODELS[config.name](source_vocabulary, target_vocabulary, config)
    model.source_special, model.decoder.special = special
    return model


def build_language_model(
    config: LanguageModelConfig,
    vocabulary: int,
    special: SpecialTokens = SPECIAL,
) -> "LanguageModel":
    """Return the language model of a configuration, with fresh weights, for a vocabulary with these special ids."""
    model = LANGUAGE_MODELS[config.name](vocabulary, config)
    model.special = special
    return model


def build_classifier(
    config: ClassifierConfig,
    vocabulary: int,
    classes: int,
) -> "Classifier":
    """Return the classifier of a configuration for `classes` classes, with fresh weights."""
    return CLASSIFIERS[config.name](vocabulary, classes, config)


def build_captioner(config: CaptionerConfig, vocabulary: int) -> "Captioner":
    """Return the captioner of a configuration, with fresh weights."""
    return CAPTIONERS[config.name](vocabulary, config)


def build_tagger(config: TaggerConfig, vocabulary: int, tags: int) -> "nn.Module":
    """Return the tagger of a configuration, with fresh weights.

    Its `forward` takes tokens `(batch, position)`, padded on the right, and lengths
    `(batch,)`, and gives logits `(batch, position, tag)`, computed by its `output`.
    """
    return TAGGERS[config.name](vocabulary, tags, config)


def build_span_model(config: SpanModelConfig, vocabulary: int) -> "nn.Module":
    """Return the span model of a configuration, with fresh weights.

    Its `forward` takes windows in its `form`, and gives logits `(batch, position, 2)`
    of the answer's first and last token; position 0 stands for no answer.
    """
    return SPAN_MODELS[config.name](vocabulary, config)


def build_image_classifier(config: ImageClassifierConfig, classes: int) -> Any:
    """Build the image classifier of a configuration, with fresh weights."""
    return IMAGE_CLASSIFIERS[config.name](classes, config)
