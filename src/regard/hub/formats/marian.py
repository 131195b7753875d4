"""Marian's translation models as published for Hugging Face's libraries (OPUS-MT, Tiedemann and Thottingal 2020): the
Transformer of Vaswani 2017 with norms after the residuals and one shared embedding.

Targets begin with the padding token, which is never predicted."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import marian_files
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.generation import GENERATION
from regard.hub.formats.names import Part, check_sizes, exported, imported, linear
from regard.hub.formats.pretrained_model import Files, PretrainedModel
from regard.hub.formats.settings import Settings
from regard.models.transformer import TransformerConfig
from regard.nn.embeddings import SinesThenCosines
from regard.text import Tokenizer

TABLE, BIAS = "encoder.embedding.table.weight", "decoder.output.bias"
SHARED, LOGITS = "model.shared.weight", "final_logits_bias"
SAME = ("decoder.embedding.table.weight", "decoder.output.weight")
"""Parameters of regard that are tied to the embedding."""
DOUBLES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Published tensors that duplicate the embedding."""
POSITIONS = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)
"""Constants that some files store among the weights."""
CLOSE = 1e-2
"""Largest difference of stored positions from computed ones; float16 needs this much."""
EMBEDDED = (Part(SHARED, (TABLE,)), Part(LOGITS, (BIAS,)))
ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
SIZES = {
    "layers": ("encoder_layers", 12),
    "width": ("d_model", 1024),
    "hidden": ("encoder_ffn_dim", 4096),
    "heads": ("encoder_attention_heads", 16),
    "max_length": ("max_position_embeddings", 1024),
    "decoder_layers": ("decoder_layers", 12),
}
"""The published name and the default of each size."""
USED = (
    "vocab_size",
    "dropout",
    "scale_embedding",
    "decoder_attention_heads",
    "decoder_ffn_dim",
)
FIXED = {
    "activation_function": tuple(ACTIVATIONS),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (True,),
    "share_encoder_decoder_embeddings": (True,),
    "tie_word_embeddings": (True,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
}
IGNORED = (
    *(
        "attention_dropout",
        "activation_dropout",
        "classifier_dropout",
        "classif_dropout",
        "init_std",
        "num_labels",
    ),
    *(
        "encoder_layerdrop",
        "decoder_layerdrop",
        "extra_pos_embeddings",
        "force_bos_token_to_be_generated",
    ),
    *(
        "num_hidden_layers",
        "output_past",
        "length_extra",
        "decoder_input_ids",
        "cross_attention_hidden_size",
    ),
    *("save_step",),
)
EXPECTED: dict[str, Any] = {
    "norm": "after",
    "positions": "sines-then-cosines",
    "align": "softmax",
    "self_align": "softmax",
    "score": "scaled-dot",
    "tied": True,
    "shared": True,
}
"""The config values of every Marian model."""


def read(folder: Folder) -> PretrainedModel:
    """Read the model in a folder. Raises InputError for any model but a Marian."""
    values = {
        key: value for key, value in folder.json(CONFIG).items() if value is not None
    }
    settings = Settings(values, str(folder.path / CONFIG))
    size, start = settings.size("vocab_size", 58101), settings.index("pad_token_id")
    config = _config(settings, size, start)
    for key, number, default in (
        ("decoder_attention_heads", config.heads, 16),
        ("decoder_ffn_dim", config.hidden, 4096),
    ):
        if (found := settings.size(key, default)) != number:
            raise InputError(
                f"{settings.place}: {key} is {found}, the encoder's {number}; regard has one for both"
            )
    search, ends = marian_files.read_search(folder, config.max_length, size, start)
    source, target = marian_files.read_tokenizers(folder, size, start, ends)
    weights = _plain(folder, config, size)
    sizes = {
        "vocab_size": (size, SHARED, 0),
        "d_model": (config.width, SHARED, 1),
        "encoder_ffn_dim": (config.hidden, "model.encoder.layers.0.fc1.weight", 0),
    }
    layers = {
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
    }
    check_sizes(settings.place, weights, layers, sizes)
    tensors = imported(tuple(parts(config)), weights, 0)
    tensors |= dict.fromkeys(SAME, tensors[TABLE])
    return PretrainedModel(config, tensors, source, target, search)


def _config(settings: Settings, size: int, start: int) -> TransformerConfig:
    """Read the config of a model of `size` tokens. Raises InputError for a value that regard does not compute."""
    sizes = {field: settings.size(*called) for field, called in SIZES.items()}
    fixed = {
        "decoder_vocab_size": (size,),
        "decoder_start_token_id": (start,),
        "scale_embedding": (True, False),
    }
    settings.check(
        (*(name for name, _ in SIZES.values()), *USED), FIXED | fixed, IGNORED
    )
    if sizes["width"] % sizes["heads"]:
        raise InputError(
            f"{settings.place}: d_model is {sizes['width']}, not divisible by {sizes['heads']} heads"
        )
    chosen: dict[str, Any] = EXPECTED | {
        "dropout": settings.share("dropout", 0.1),
        "activation": ACTIVATIONS[settings.values.get("activation_function", "gelu")],
        "scaled": settings.values.get("scale_embedding", False),
    }
    return TransformerConfig(**sizes, **chosen)


def require(
    config: TransformerConfig, source: Tokenizer, target: Tokenizer | None
) -> Tokenizer:
    """Return the target's tokenizer. Raises InputError for a Transformer that transformers' Marian does not compute."""
    wrong = [
        f"{name} is {getattr(config, name)!r}"
        for name, value in EXPECTED.items()
        if getattr(config, name) != value
    ]
    if config.key_value_heads not in (None, config.heads):
        wrong.append(f"key_value_heads is {config.key_value_heads}")
    if target is None or {source.settings.kind, target.settings.kind} != {"unigram"}:
        wrong.append("its tokenizers are not of unigram pieces")
    elif (source.vocabulary, source.special) != (target.vocabulary, target.special):
        wrong.append("its tokenizers are not of one vocabulary")
    if wrong:
        raise InputError(
            f"no published family has such a transformer ({', '.join(wrong)}); only those of Marian's kind"
        )
    assert target is not None
    return target


def write(pretrained: PretrainedModel) -> Files:
    """Return the published files of a model. Raises InputError as `require`."""
    config, source = pretrained.config, pretrained.tokenizer
    assert isinstance(config, TransformerConfig)
    target = require(config, source, pretrained.target)
    start = source.special.start
    tensors = exported(tuple(parts(config)), pretrained.tensors, 0)
    tensors[LOGITS] = tensors[LOGITS][None]
    ids = {"pad_token_id": start, "decoder_start_token_id": start}
    documents = marian_files.tokenizer_files(source, target, config.max_length)
    documents |= {
        CONFIG: config_document(config, source.size)
        | ids
        | {"eos_token_id": source.special.end}
    }
    if pretrained.search is not None:
        search = marian_files.generation_config(
            pretrained.search, source.special, config.max_length
        )
        documents |= {GENERATION: search | ids}
    return Files(documents, tensors)


def config_document(config: TransformerConfig, size: int) -> dict[str, Any]:
    """Return the config.json of a model of `size` tokens."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "d_model": config.width,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "activation_function": config.activation,
        "max_position_embeddings": config.max_length,
        "scale_embedding": config.scaled,
        "dropout": config.dropout,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
    }


def parts(config: TransformerConfig) -> Iterator[Part]:
    """Yield the tensors of a model of this config."""
    yield from EMBEDDED
    for side, count in (
        ("encoder", config.layers),
        ("decoder", config.decoder_layers or config.layers),
    ):
        attentions = {"self_attn": "self_attention"} | (
            {"encoder_attn": "cross_attention"} if side == "decoder" else {}
        )
        for number in range(count):
            yield from _layer(
                f"model.{side}.layers.{number}", f"{side}.layers.{number}", attentions
            )


def _layer(theirs: str, ours: str, attentions: Mapping[str, str]) -> Iterator[Part]:
    for place, (published, own) in enumerate(attentions.items()):
        for name, part in (
            ("q", "query"),
            ("k", "key"),
            ("v", "value"),
            ("out", "output"),
        ):
            yield from linear(
                f"{theirs}.{published}.{name}_proj", f"{ours}.{own}.{part}"
            )
        yield from linear(
            f"{theirs}.{published}_layer_norm", f"{ours}.residuals.{place}.norm"
        )
    yield from linear(f"{theirs}.fc1", f"{ours}.feedforward.0")
    yield from linear(f"{theirs}.fc2", f"{ours}.feedforward.2")
    yield from linear(
        f"{theirs}.final_layer_norm", f"{ours}.residuals.{len(attentions)}.norm"
    )


def _plain(folder: Folder, config: TransformerConfig, size: int) -> dict[str, Tensor]:
    """Read the tensors without duplicates of the embedding and constants. Raises InputError for a duplicate that
    differs and for positions that are not sinusoidal."""
    weights = folder.tensors()
    for name in DOUBLES:
        found = weights.pop(name, None)
        if found is not None and not torch.equal(
            weights.setdefault(SHARED, found), found
        ):
            raise InputError(
                f"{folder.path}: {name} differs from {SHARED}; regard has one for both"
            )
    for name in POSITIONS:
        found = weights.pop(name, None)
        if found is not None and not _sinusoidal(found, config):
            raise InputError(
                f"{folder.path}: {name} is not of sines, then cosines; regard computes these only"
            )
    bias = weights.get(LOGITS, torch.zeros(1, size))
    weights[LOGITS] = bias[0] if bias.ndim == 2 and len(bias) == 1 else bias
    return weights


def _sinusoidal(table: Tensor, config: TransformerConfig) -> bool:
    if table.ndim != 2 or table.shape[1] != config.width:
        return False
    return bool(
        (SinesThenCosines()(torch.zeros(1, *table.shape))[0] - table).abs().max()
        <= CLOSE
    )
