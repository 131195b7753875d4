"""Published BERTs (Devlin et al. 2019; MiniLM has the same names), DistilBERTs and RoBERTas.

DistilBERT has no segments and no pooler. RoBERTa has no segments, counts positions from 2 and reads byte-level BPE.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import bert_heads, word_pieces
from regard.hub.formats.bert_heads import POOLER, Heads, PublishedHead
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import Part, Sizes, check_sizes, check_vocabulary, exported, imported, linear
from regard.hub.formats.pretrained_model import Files, PretrainedModel, TextHead
from regard.hub.formats.settings import Settings, check_attention
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER
from regard.models.bert import ActivationName, BertConfig
from regard.text import SpecialTokens, Tokenizer

OWN = "encoder.layers.{}"
ATTENTION = f"{OWN}.self_attention"
TABLE, POSITIONS = "encoder.embedding.table.weight", "encoder.positions.table"
TRANSFORMER = (
    Part("embeddings.word_embeddings.weight", (TABLE,)),
    Part("embeddings.position_embeddings.weight", (POSITIONS,)),
    *linear("embeddings.LayerNorm", "encoder.norm"),
)
SEGMENTS = (Part("embeddings.token_type_embeddings.weight", ("encoder.segments.weight",)),)
LAYERS = (
    *linear("encoder.layer.{}.attention.self.query", f"{ATTENTION}.query"),
    *linear("encoder.layer.{}.attention.self.key", f"{ATTENTION}.key"),
    *linear("encoder.layer.{}.attention.self.value", f"{ATTENTION}.value"),
    *linear("encoder.layer.{}.attention.output.dense", f"{ATTENTION}.output"),
    *linear("encoder.layer.{}.attention.output.LayerNorm", f"{OWN}.residuals.0.norm"),
    *linear("encoder.layer.{}.intermediate.dense", f"{OWN}.feedforward.0"),
    *linear("encoder.layer.{}.output.dense", f"{OWN}.feedforward.2"),
    *linear("encoder.layer.{}.output.LayerNorm", f"{OWN}.residuals.1.norm"),
)
DISTILLED_LAYERS = (
    *linear("transformer.layer.{}.attention.q_lin", f"{ATTENTION}.query"),
    *linear("transformer.layer.{}.attention.k_lin", f"{ATTENTION}.key"),
    *linear("transformer.layer.{}.attention.v_lin", f"{ATTENTION}.value"),
    *linear("transformer.layer.{}.attention.out_lin", f"{ATTENTION}.output"),
    *linear("transformer.layer.{}.sa_layer_norm", f"{OWN}.residuals.0.norm"),
    *linear("transformer.layer.{}.ffn.lin1", f"{OWN}.feedforward.0"),
    *linear("transformer.layer.{}.ffn.lin2", f"{OWN}.feedforward.2"),
    *linear("transformer.layer.{}.output_layer_norm", f"{OWN}.residuals.1.norm"),
)
NEXT_SENTENCE = linear("cls.seq_relationship", "next_sentence")
FIXED = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
    "pruned_heads": ({},),
}
ACTIVATIONS: Mapping[str, ActivationName] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_python": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Published activations as those of ours; of several names for one the first is written."""
KEYS = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "dropout": "hidden_dropout_prob",
}
DISTILLED_KEYS = {
    "layers": "n_layers",
    "width": "dim",
    "heads": "n_heads",
    "hidden": "hidden_dim",
    "dropout": "dropout",
}
IGNORED = (
    *("attention_probs_dropout_prob", "classifier_dropout", "gradient_checkpointing", "directionality"),
    *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"),
)
OLD = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
"""Names in the first released files, and their names in later ones."""


def predictions(dense: str, norm: str, bias: str) -> tuple[Part, ...]:
    """Return the parts of the masked language model's head."""
    own = Part(bias, ("predictions.output.bias",))
    return (*linear(dense, "predictions.transform"), *linear(norm, "predictions.norm"), own)


@dataclass(frozen=True)
class BertVariant:
    """The names and conventions of the models of one `model_type`. `prefix` precedes the encoder's tensors in files
    with a head. `doubles` are tensors that equal another one. `tokenizer` is transformers' class for text. `behind`:
    positions are counted from the number after padding's id. `activation` is the key of the layers' activation."""

    name: str
    architecture: str
    prefix: str
    keys: Mapping[str, str]
    layers: tuple[Part, ...]
    predictions: tuple[Part, ...]
    doubles: Mapping[str, str]
    fixed: Mapping[str, tuple[Any, ...]]
    heads: Heads
    tokenizer: str
    segmented: bool = True
    pooled: bool = True
    behind: bool = False
    epsilon: float | None = None
    activation: str = "hidden_act"

    def offset(self, special: SpecialTokens) -> int:
        """Return the number of the first position."""
        return special.pad + 1 if self.behind else 0

    def check_activation(self, config: BertConfig, place: str) -> None:
        """Raises InputError for another activation than gelu in RoBERTa's predictions, which have it always."""
        if self.behind and config.predictions and config.activation != "gelu":
            raise InputError(
                f"{place}: {self.activation} is {config.activation}, and the predictions of a {self.name} have gelu; "
                "regard has one activation for both"
            )

    def sizes(self, config: BertConfig, tokenizer: Tokenizer) -> Sizes:
        """Return the sizes of a model by their keys, each with the tensor and the axis that must have it."""
        [dense] = [part.of_layer(0).published for part in self.layers if "feedforward.0.weight" in part.ours[0]]
        segments = {"type_vocab_size": (config.segments, SEGMENTS[0].published, 0)} if self.segmented else {}
        return segments | {
            "vocab_size": (tokenizer.size, TRANSFORMER[0].published, 0),
            self.keys["width"]: (config.width, TRANSFORMER[0].published, 1),
            self.keys["hidden"]: (config.hidden, dense, 0),
            "max_position_embeddings": (config.context + self.offset(tokenizer.special), TRANSFORMER[1].published, 0),
        }


BERT = BertVariant(
    "bert",
    "BertForPreTraining",
    "bert.",
    KEYS,
    LAYERS,
    predictions("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    FIXED,
    bert_heads.BERT,
    "BertTokenizer",
)
ROBERTA = BertVariant(
    "roberta",
    "RobertaForMaskedLM",
    "roberta.",
    KEYS,
    LAYERS,
    predictions("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    {"lm_head.decoder.weight": "embeddings.word_embeddings.weight", "lm_head.decoder.bias": "lm_head.bias"},
    FIXED,
    bert_heads.ROBERTA,
    "RobertaTokenizer",
    behind=True,
)
DISTILBERT = BertVariant(
    "distilbert",
    "DistilBertForMaskedLM",
    "distilbert.",
    DISTILLED_KEYS,
    DISTILLED_LAYERS,
    predictions("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    {"vocab_projector.weight": "embeddings.word_embeddings.weight"},
    {
        "sinusoidal_pos_embds": (False,),
        "tie_word_embeddings": (True,),
        "tie_weights_": (True,),
    },
    bert_heads.DISTILBERT,
    "DistilBertTokenizer",
    segmented=False,
    pooled=False,
    epsilon=1e-12,
    activation="activation",
)


def read(folder: Folder, variant: BertVariant) -> PretrainedModel:
    """Read the model in a folder. Raises InputError for a model of another variant."""
    settings = Settings(folder.json(CONFIG), str(folder.path / CONFIG))
    sizes = ("vocab_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps")
    unused = ("attention_dropout", "qa_dropout", "seq_classif_dropout", "output_past", "tie_weights_")
    settings.check((*variant.keys.values(), *sizes, variant.activation), variant.fixed, (*IGNORED, *unused))
    weights, size = _plain(folder, variant), settings.size("vocab_size")
    check_vocabulary(settings.place, weights, size, TRANSFORMER[0].published)
    tokenizer = word_pieces.read(folder, size)
    offset = variant.offset(tokenizer.special)
    if offset and settings.index("pad_token_id", 1) != tokenizer.special.pad:
        padding = tokenizer.special.pad
        raise InputError(f"{settings.place}: pad_token_id is not {padding}, the tokenizer's; is it of another model?")
    head = variant.heads.read(settings, weights)
    form = None if head is None else variant.heads.form(head)
    config = settings.build(
        BertConfig,
        layers=settings.size(variant.keys["layers"]),
        width=settings.size(variant.keys["width"]),
        heads=settings.size(variant.keys["heads"]),
        hidden=settings.size(variant.keys["hidden"]),
        context=settings.size("max_position_embeddings", 512) - offset,
        segments=settings.size("type_vocab_size", 2) if variant.segmented else 0,
        dropout=settings.share(variant.keys["dropout"], 0.1),
        epsilon=variant.epsilon or settings.above("layer_norm_eps", 1e-12),
        predictions=form is None and variant.predictions[0].published in weights,
        pooler=POOLER[0].published in weights if form is None else isinstance(head, TextHead),
        next_sentence=form is None and NEXT_SENTENCE[0].published in weights,
        activation=settings.choice(variant.activation, ACTIVATIONS, "gelu"),
        pooled=variant.heads.texts.pooled,
    )
    variant.check_activation(config, settings.place)
    check_sizes(settings.place, weights, {variant.keys["layers"]: config.layers}, variant.sizes(config, tokenizer))
    read = {name: tensor for name, tensor in weights.items() if form is None or name not in form.unused}
    tensors = imported(parts(variant, config, form), read, config.layers)
    tensors[POSITIONS] = tensors[POSITIONS][offset:]
    if config.predictions:
        tensors["predictions.output.weight"] = tensors[TABLE]
    return PretrainedModel(config, tensors, tokenizer, head=head)


def write(pretrained: PretrainedModel, variant: BertVariant) -> Files:
    """Return the published files of a model. Raises InputError for a head that transformers computes differently."""
    config, tokenizer, head = pretrained.config, pretrained.tokenizer, pretrained.head
    assert isinstance(config, BertConfig)
    check_attention(config, "this run", positions="learned")
    form = None if head is None else variant.heads.form(head)
    variant.check_activation(config, "this run")
    if head is not None:
        variant.heads.check(head, tokenizer.special, config.pooled)
    offset = variant.offset(tokenizer.special)
    sizes = {name: getattr(config, field) for field, name in variant.keys.items()}
    document = {
        "architectures": [variant.architecture if form is None else form.architecture],
        "model_type": variant.name,
        "vocab_size": tokenizer.size,
        "max_position_embeddings": config.context + offset,
        **({"type_vocab_size": config.segments} if variant.segmented else {}),
        **({} if variant.epsilon else {"layer_norm_eps": config.epsilon}),
        variant.activation: next(name for name, own in ACTIVATIONS.items() if own == config.activation),
        **sizes,
        "pad_token_id": tokenizer.special.pad,
        **bert_heads.head_keys(head),
    }
    own = dict(pretrained.tensors)
    unused = own[POSITIONS].new_zeros(offset, config.width)
    own[POSITIONS] = torch.cat([unused, own[POSITIONS]])
    tensors = exported(parts(variant, config, form), own, config.layers)
    heads = {part.published for part in (*variant.predictions, *NEXT_SENTENCE, *(form.parts if form else ()))}
    heads -= {part.published for part in POOLER}
    prefix = variant.prefix if heads & set(tensors) else ""
    named = {name if name in heads else prefix + name: tensor for name, tensor in tensors.items()}
    about = word_pieces.tokenizer_config(tokenizer, variant.tokenizer, config.context)
    documents = {CONFIG: document, TOKENIZER: word_pieces.tokenizer_document(tokenizer), ABOUT: about}
    return Files(documents, named)


def parts(variant: BertVariant, config: BertConfig, form: PublishedHead | None = None) -> tuple[Part, ...]:
    """Return the tensors of a model of this config, with the head `form` if any."""
    encoder = (*TRANSFORMER, *(SEGMENTS if config.segments else ()), *variant.layers)
    if form is not None:
        return (*encoder, *form.parts)
    return (
        *encoder,
        *(POOLER if config.pooler else ()),
        *(variant.predictions if config.predictions else ()),
        *(NEXT_SENTENCE if config.next_sentence else ()),
    )


def _plain(folder: Folder, variant: BertVariant) -> dict[str, Tensor]:
    """Read the tensors without prefixes, constants and duplicates. Raises InputError for a duplicate that differs from
    its original."""
    weights: dict[str, Tensor] = {}
    for name, tensor in folder.tensors().items():
        for old, new in OLD:
            name = name.replace(old, new)
        weights[name.removeprefix(variant.prefix)] = tensor
    for double, original in variant.doubles.items():
        found = weights.pop(double, None)
        if found is not None and not torch.equal(found, weights.get(original, found)):
            raise InputError(f"{folder.path}: {double} differs from {original}; regard has one for both")
    return {name: tensor for name, tensor in weights.items() if not re.fullmatch(r"embeddings\.position_ids", name)}
