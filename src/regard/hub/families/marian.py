"""Marian's translation models (Tiedemann and Thottingal 2020), in both directions.

They are Transformers with norms after the residuals and one shared embedding. Targets
begin with the padding token, which is never predicted.
"""

from typing import Any

from regard.errors import InputError
from regard.hub.families.weights import Family, Keys, Part, linear, require
from regard.models.transformer import TransformerConfig

ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
EXPECTED: Keys = {
    "norm": "after",
    "positions": "sines-then-cosines",
    "tied": True,
    "shared": True,
}
"""The values of ours that every Marian model has."""
SAME = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_vocab_size": "vocab_size",
    "decoder_start_token_id": "pad_token_id",
}
"""Published keys that have the value of another."""


def read(values: Any, architecture: str) -> Keys:
    """Return the activation, and what every Marian model has."""
    for key, twin in SAME.items():
        if getattr(values, key) != getattr(values, twin):
            raise InputError(f"{key} differs from {twin}")
    if values.activation_function not in ACTIVATIONS:
        raise InputError(f"the activation is {values.activation_function}")
    return EXPECTED | {"activation": ACTIVATIONS[values.activation_function]}


def write(config: TransformerConfig, task: str) -> Keys:
    """Return the class, the activation and the sizes of the decoder."""
    require(config, **EXPECTED)
    if config.key_value_heads not in (None, config.heads):
        raise InputError(
            f"model.key_value_heads is {config.key_value_heads}; a published Marian "
            "has as many as heads"
        )
    return {
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "decoder_layers": config.decoder_layers or config.layers,
        "decoder_attention_heads": config.heads,
        "decoder_ffn_dim": config.hidden,
        "activation_function": config.activation,
    }


def list_parts(config: TransformerConfig, task: str) -> list[Part]:
    """Return the table of weights."""
    parts = [
        Part("model.shared.weight", ("encoder.embedding.table.weight",)),
        Part("final_logits_bias", ("decoder.output.bias",), shape=(1, -1)),
    ]
    sides = {
        "encoder": (config.layers, {"self_attn": "self_attention"}),
        "decoder": (
            config.decoder_layers or config.layers,
            {"self_attn": "self_attention", "encoder_attn": "cross_attention"},
        ),
    }
    projections = {"q": "query", "k": "key", "v": "value", "out": "output"}
    for side, (layers, attentions) in sides.items():
        for number in range(layers):
            ours = f"{side}.layers.{number}"
            modules = {"fc1": "feedforward.0", "fc2": "feedforward.2"}
            for index, (published, name) in enumerate(attentions.items()):
                for short, projection in projections.items():
                    modules[f"{published}.{short}_proj"] = f"{name}.{projection}"
                modules[f"{published}_layer_norm"] = f"residuals.{index}.norm"
            modules["final_layer_norm"] = f"residuals.{len(attentions)}.norm"
            for published, name in modules.items():
                parts += linear(f"model.{ours}.{published}", f"{ours}.{name}")
    return parts


MARIAN = Family(
    config=TransformerConfig,
    sizes={
        "layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "width": "d_model",
        "hidden": "encoder_ffn_dim",
        "heads": "encoder_attention_heads",
        "max_length": "max_position_embeddings",
        "dropout": "dropout",
        "scaled": "scale_embedding",
    },
    fixed={
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
    },
    read=read,
    write=write,
    parts=list_parts,
)
