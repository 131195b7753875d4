"""Published BERTs (Devlin et al. 2019; MiniLM has the same names) and the models whose layers are like its."""

import re

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import bert_heads, word_pieces
from regard.hub.formats.bert_heads import POOLER, PublishedHead
from regard.hub.formats.bert_variants import (
    ACTIVATIONS,
    IGNORED,
    NEXT_SENTENCE,
    OLD,
    POSITIONS,
    SEGMENTS,
    TABLE,
    TRANSFORMER,
    BertVariant,
)
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import Part, check_sizes, check_vocabulary, exported, imported
from regard.hub.formats.pretrained_model import Files, PretrainedModel, TextHead
from regard.hub.formats.settings import Settings, check_attention
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER
from regard.models.bert import BertConfig


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
