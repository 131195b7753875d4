"""Models by name, imported only when a run uses them.

Other packages add theirs under the entry points of each group.

A name stands for a model's class, whose `config_class` is the dataclass of its sizes.
"""

from typing import Annotated, Any

from regard.config.loader import Discriminated, Registry

MODELS = Registry(
    "regard.models",
    {
        "bahdanau": "bahdanau:Bahdanau",
        "luong": "luong:Luong",
        "bottleneck": "bottleneck:Bottleneck",
        "one-pass": "one_pass:OnePass",
        "pointer-generator": "pointer_generator:PointerGenerator",
        "transformer": "transformer:Transformer",
        "pair": "pair:Pair",
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
        "bert-pointer": "bert:BertPointer",
        "recurrent-tagger": "classifier:RecurrentTagger",
        "pretrained": "pretrained:PretrainedTagger",
    },
    group="regard.taggers",
)
"""Their `forward` takes tokens `(batch, position)`, padded on the right, and lengths
`(batch,)`, and gives logits `(batch, position, tag)`, computed by their `output`."""
SPAN_MODELS = Registry(
    "regard.models",
    {
        "bert": "bert:BertSpans",
        "span-reader": "span_reader:SpanReader",
        "pretrained": "pretrained:PretrainedSpans",
    },
    group="regard.span_models",
)
"""Their `forward` takes windows in their `form`, and gives logits `(batch, position, 2)`
of the answer's first and last token; position 0 stands for no answer."""
IMAGE_CLASSIFIERS = Registry(
    "regard.models",
    {"vit": "vit:Vit", "pretrained": "pretrained:PretrainedVision"},
    group="regard.image_classifiers",
)

ModelConfig = Annotated[
    Any, Discriminated("name", MODELS, "config_class", {"encoder": "pair"})
]
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
