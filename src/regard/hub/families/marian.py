"""Marian's translation models (Tiedemann and Thottingal 2020), in both directions.

They are Transformers with norms after the residuals and one shared embedding. Targets
begin with the padding token, which is never predicted.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import Family, Part, linear, require
from regard.models.transformer import TransformerConfig

TABLE, BIAS = "encoder.embedding.table.weight", "decoder.output.bias"
SHARED, LOGITS = "model.shared.weight", "final_logits_bias"
TIED = ("decoder.embedding.table.weight", "decoder.output.weight")
"""Parameters of regard that are tied to the embedding."""
SIZES = {
    "layers": "encoder_layers",
    "decoder_layers": "decoder_layers",
    "width": "d_model",
    "hidden": "encoder_ffn_dim",
    "heads": "encoder_attention_heads",
    "max_length": "max_position_embeddings",
    "dropout": "dropout",
    "scaled": "scale_embedding",
}
ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
EXPECTED: dict[str, Any] = {
    "norm": "after",
    "positions": "sines-then-cosines",
    "tied": True,
    "shared": True,
}
"""The values of ours that every Marian model has."""
FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
IGNORED = frozenset(
    {
        "activation_dropout",
        "attention_dropout",
        "bad_words_ids",
        "classif_dropout",
        "decoder_layerdrop",
        "decoder_vocab_size",
        "encoder_layerdrop",
        "extra_pos_embeddings",
        "force_bos_token_to_be_generated",
        "init_std",
        "num_hidden_layers",
    }
)


def read_config(values: Any, architecture: str) -> TransformerConfig:
    """Read a published configuration."""
    for key, value in FIXED.items():
        if getattr(values, key, value) != value:
            raise InputError(f"{key} is {getattr(values, key)!r}")
    same = {
        "decoder_attention_heads": "encoder_attention_heads",
        "decoder_ffn_dim": "encoder_ffn_dim",
        "decoder_vocab_size": "vocab_size",
        "decoder_start_token_id": "pad_token_id",
    }
    for key, other in same.items():
        if getattr(values, key) != getattr(values, other):
            raise InputError(f"{key} differs from {other}")
    if values.activation_function not in ACTIVATIONS:
        raise InputError(f"the activation is {values.activation_function}")
    sizes = {field: getattr(values, key) for field, key in SIZES.items()}
    activation: Any = ACTIVATIONS[values.activation_function]
    return TransformerConfig(**sizes, **EXPECTED, activation=activation)


def write_config(config: TransformerConfig, task: str) -> dict[str, Any]:
    """Write a published configuration."""
    require(config, **EXPECTED)
    if config.key_value_heads not in (None, config.heads):
        raise InputError(
            f"model.key_value_heads is {config.key_value_heads}; a published Marian "
            "has as many as heads"
        )
    sizes = {key: getattr(config, field) for field, key in SIZES.items()}
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        **sizes,
        **FIXED,
        "decoder_layers": config.decoder_layers or config.layers,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.hidden,
        "activation_function": config.activation,
    }


def parts(config: TransformerConfig, task: str) -> list[Part]:
    """Return the table of weights."""
    table = [Part(SHARED, (TABLE,)), Part(LOGITS, (BIAS,))]
    for side, count in (
        ("encoder", config.layers),
        ("decoder", config.decoder_layers or config.layers),
    ):
        attentions = {"self_attn": "self_attention"}
        if side == "decoder":
            attentions["encoder_attn"] = "cross_attention"
        for number in range(count):
            published, ours = f"model.{side}.layers.{number}", f"{side}.layers.{number}"
            table += _layer(published, ours, attentions)
    return table


def _layer(published: str, ours: str, attentions: Mapping[str, str]) -> Iterator[Part]:
    names = {"q": "query", "k": "key", "v": "value", "out": "output"}
    for index, (theirs, ours_name) in enumerate(attentions.items()):
        for short, name in names.items():
            yield from linear(
                f"{published}.{theirs}.{short}_proj", f"{ours}.{ours_name}.{name}"
            )
        norm = f"{ours}.residuals.{index}.norm"
        yield from linear(f"{published}.{theirs}_layer_norm", norm)
    yield from linear(f"{published}.fc1", f"{ours}.feedforward.0")
    yield from linear(f"{published}.fc2", f"{ours}.feedforward.2")
    last = f"{ours}.residuals.{len(attentions)}.norm"
    yield from linear(f"{published}.final_layer_norm", last)


def to_ours(tensors: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Repeat the embedding, and flatten the bias."""
    result = dict(tensors)
    result[BIAS] = result[BIAS].flatten()
    return result | dict.fromkeys(TIED, result[TABLE])


def to_published(
    tensors: dict[str, Tensor], config: TransformerConfig
) -> dict[str, Tensor]:
    """Add the axis that the published bias has."""
    return tensors | {BIAS: tensors[BIAS][None]}


CONSUMED = frozenset({*SIZES.values(), *FIXED, *IGNORED, "activation_function"})
CONSUMED |= {"decoder_attention_heads", "decoder_ffn_dim"}
FAMILY = Family(CONSUMED, read_config, write_config, parts, to_ours, to_published)
