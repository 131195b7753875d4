"""Published BERTs (Devlin et al. 2019; MiniLM has the same names) and the models whose layers are like its."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import bert_heads, word_pieces
from regard.hub.formats.bert_heads import POOLER, PublishedHead
from regard.hub.formats.bert_variants import (
    DISCRIMINATOR,
    DISTANCES,
    IGNORED,
    NEXT_SENTENCE,
    OLD,
    POSITIONS,
    PROJECTION,
    RELATIVE,
    SEGMENTS,
    TABLE,
    TRANSFORMER,
    BertVariant,
)
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import (
    Part,
    check_sizes,
    check_vocabulary,
    exported,
    imported,
)
from regard.hub.formats.pretrained_model import Files, Head, PretrainedModel, TextHead
from regard.hub.formats.settings import (
    ACTIVATIONS,
    Settings,
    activation_name,
    check_attention,
)
from regard.hub.formats.tokenizer_json import ABOUT, TOKENIZER
from regard.models.bert import BertConfig
from regard.text import Tokenizer


def read(folder: Folder, variant: BertVariant) -> PretrainedModel:
    """Read the model in a folder. Raises InputError for a model of another variant."""
    settings = Settings(folder.json(CONFIG), str(folder.path / CONFIG))
    sizes = (
        "vocab_size",
        "max_position_embeddings",
        "type_vocab_size",
        "layer_norm_eps",
    )
    narrow = ("embedding_size",) if variant.narrow else ()
    unused = (
        "attention_dropout",
        "qa_dropout",
        "seq_classif_dropout",
        "output_past",
        "tie_weights_",
    )
    settings.check(
        (*variant.keys.values(), *sizes, *narrow, variant.activation),
        variant.fixed,
        (*IGNORED, *unused),
    )
    weights, size = _plain(folder, variant), settings.size("vocab_size")
    check_vocabulary(settings.place, weights, size, TRANSFORMER[0].published)
    tokenizer = word_pieces.read(folder, size, variant.special)
    variant.check_padding(tokenizer.special, settings.place)
    offset, padding = variant.offset(tokenizer.special), tokenizer.special.pad
    if offset and settings.index("pad_token_id", 1) != padding:
        raise InputError(
            f"{settings.place}: pad_token_id is not {padding}, the tokenizer's; is it of another model?"
        )
    head = variant.heads.read(settings, weights)
    form = None if head is None else variant.heads.form(head)
    config = _config(settings, variant, offset, weights, head)
    variant.check_activation(config, settings.place)
    check_sizes(
        settings.place,
        weights,
        {variant.keys["layers"]: config.layers},
        variant.sizes(config, tokenizer),
    )
    read = {
        name: tensor
        for name, tensor in weights.items()
        if form is None or name not in form.unused
    }
    tensors = imported(parts(variant, config, form), read, config.layers)
    tensors[POSITIONS] = tensors[POSITIONS][offset:]
    if config.relative is not None:
        tensors |= {
            DISTANCES.format(layer): tensors[DISTANCES.format(0)]
            for layer in range(config.layers)
        }
    if config.predictions:
        tensors["predictions.output.weight"] = tensors[TABLE]
    return PretrainedModel(config, tensors, tokenizer, head=head)


def _config(
    settings: Settings,
    variant: BertVariant,
    offset: int,
    weights: Mapping[str, Tensor],
    head: Head | None,
) -> BertConfig:
    """Read the sizes of a model with these weights and this head, whose first position is `offset`."""
    alone = head is None
    keys = {
        field: settings.size(variant.keys[field])
        for field in ("layers", "width", "heads", "hidden")
    }
    embedding = (
        settings.size("embedding_size", 128) if variant.narrow else keys["width"]
    )
    return settings.build(
        BertConfig,
        **keys,
        context=settings.size("max_position_embeddings", 512) - offset,
        segments=settings.size("type_vocab_size", 2) if variant.segmented else 0,
        dropout=settings.share(variant.keys["dropout"], 0.1),
        epsilon=variant.epsilon or settings.above("layer_norm_eps", 1e-12),
        predictions=alone and variant.predictions[0].published in weights,
        pooler=POOLER[0].published in weights if alone else isinstance(head, TextHead),
        next_sentence=alone and NEXT_SENTENCE[0].published in weights,
        activation=settings.choice(variant.activation, ACTIVATIONS, "gelu"),
        pooled=variant.heads.texts.pooled,
        relative=variant.relative,
        embedding=None if embedding == keys["width"] else embedding,
        discriminator=alone
        and variant.narrow
        and DISCRIMINATOR[0].published in weights,
    )


def write(pretrained: PretrainedModel, variant: BertVariant) -> Files:
    """Return the published files of a model. Raises InputError for a head that transformers computes differently."""
    config, tokenizer, head = pretrained.config, pretrained.tokenizer, pretrained.head
    assert isinstance(config, BertConfig)
    check_attention(config, "this run", positions="learned", relative=variant.relative)
    variant.check_padding(tokenizer.special, "this run")
    form = None if head is None else variant.heads.form(head)
    variant.check_activation(config, "this run")
    if head is not None:
        variant.heads.check(head, tokenizer.special, config.pooled)
    document = config_document(config, tokenizer, variant) | bert_heads.head_keys(head)
    if form is not None:
        document["architectures"] = [form.architecture]
    own = dict(pretrained.tensors)
    unused = own[POSITIONS].new_zeros(
        variant.offset(tokenizer.special), own[POSITIONS].shape[1]
    )
    own[POSITIONS] = torch.cat([unused, own[POSITIONS]])
    tensors = exported(parts(variant, config, form), own, config.layers)
    known = (
        *variant.predictions,
        *NEXT_SENTENCE,
        *DISCRIMINATOR,
        *(form.parts if form else ()),
    )
    heads = {part.published for part in known} - {part.published for part in POOLER}
    prefix = variant.prefix if heads & set(tensors) else ""
    named = {
        name if name in heads else prefix + name: tensor
        for name, tensor in tensors.items()
    }
    about = word_pieces.tokenizer_config(tokenizer, variant.tokenizer, config.context)
    documents = {
        CONFIG: document,
        TOKENIZER: word_pieces.tokenizer_document(tokenizer),
        ABOUT: about,
    }
    return Files(documents, named)


def config_document(
    config: BertConfig, tokenizer: Tokenizer, variant: BertVariant
) -> dict[str, Any]:
    """Return the config.json of a model without a head of texts, tokens or spans. Raises InputError for segments that
    the variant does not have."""
    if config.segments and not variant.segmented:
        raise InputError(
            f"model.segments is {config.segments}; a published {variant.name} has none, set it to 0"
        )
    return {
        "architectures": [
            "ElectraForPreTraining" if config.discriminator else variant.architecture
        ],
        "model_type": variant.name,
        "vocab_size": tokenizer.size,
        "max_position_embeddings": config.context + variant.offset(tokenizer.special),
        **({"type_vocab_size": config.segments} if variant.segmented else {}),
        **({} if variant.epsilon else {"layer_norm_eps": config.epsilon}),
        variant.activation: activation_name(config.activation),
        **{name: getattr(config, field) for field, name in variant.keys.items()},
        **(
            {"embedding_size": config.embedding or config.width}
            if variant.narrow
            else {}
        ),
        "pad_token_id": tokenizer.special.pad,
    }


def parts(
    variant: BertVariant, config: BertConfig, form: PublishedHead | None = None
) -> tuple[Part, ...]:
    """Return the tensors of a model of this config, with the head `form` if any."""
    encoder = (
        *TRANSFORMER,
        *(SEGMENTS if config.segments else ()),
        *(PROJECTION if config.embedding else ()),
        *(RELATIVE if config.relative else ()),
        *variant.layers,
    )
    if form is not None:
        return (*encoder, *form.parts)
    return (
        *encoder,
        *(POOLER if config.pooler else ()),
        *(variant.predictions if config.predictions else ()),
        *(NEXT_SENTENCE if config.next_sentence else ()),
        *(DISCRIMINATOR if config.discriminator else ()),
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
            raise InputError(
                f"{folder.path}: {double} differs from {original}; regard has one for both"
            )
    return {
        name: tensor
        for name, tensor in weights.items()
        if not re.fullmatch(r"embeddings\.position_ids", name)
    }
