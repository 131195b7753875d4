"""Marian's translation models (Tiedemann and Thottingal 2020), in both directions.

They are Transformers with norms after the residuals and one shared embedding. Targets
begin with the padding token, which is never predicted.
"""

from typing import Any

from regard.errors import InputError
from regard.hub.families.weights import (
    Family,
    Keys,
    PublishedTensor,
    linear,
    linears,
    require,
)
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


ENCODER = {
    "model.encoder.layers.{}.self_attn.q_proj": "encoder.layers.{}.self_attention.query",
    "model.encoder.layers.{}.self_attn.k_proj": "encoder.layers.{}.self_attention.key",
    "model.encoder.layers.{}.self_attn.v_proj": "encoder.layers.{}.self_attention.value",
    "model.encoder.layers.{}.self_attn.out_proj": "encoder.layers.{}.self_attention.output",
    "model.encoder.layers.{}.self_attn_layer_norm": "encoder.layers.{}.residuals.0.norm",
    "model.encoder.layers.{}.fc1": "encoder.layers.{}.feedforward.0",
    "model.encoder.layers.{}.fc2": "encoder.layers.{}.feedforward.2",
    "model.encoder.layers.{}.final_layer_norm": "encoder.layers.{}.residuals.1.norm",
}
DECODER = {
    "model.decoder.layers.{}.self_attn.q_proj": "decoder.layers.{}.self_attention.query",
    "model.decoder.layers.{}.self_attn.k_proj": "decoder.layers.{}.self_attention.key",
    "model.decoder.layers.{}.self_attn.v_proj": "decoder.layers.{}.self_attention.value",
    "model.decoder.layers.{}.self_attn.out_proj": "decoder.layers.{}.self_attention.output",
    "model.decoder.layers.{}.self_attn_layer_norm": "decoder.layers.{}.residuals.0.norm",
    "model.decoder.layers.{}.encoder_attn.q_proj": "decoder.layers.{}.cross_attention.query",
    "model.decoder.layers.{}.encoder_attn.k_proj": "decoder.layers.{}.cross_attention.key",
    "model.decoder.layers.{}.encoder_attn.v_proj": "decoder.layers.{}.cross_attention.value",
    "model.decoder.layers.{}.encoder_attn.out_proj": "decoder.layers.{}.cross_attention.output",
    "model.decoder.layers.{}.encoder_attn_layer_norm": "decoder.layers.{}.residuals.1.norm",
    "model.decoder.layers.{}.fc1": "decoder.layers.{}.feedforward.0",
    "model.decoder.layers.{}.fc2": "decoder.layers.{}.feedforward.2",
    "model.decoder.layers.{}.final_layer_norm": "decoder.layers.{}.residuals.2.norm",
}
"""Published linear maps and norms, and ours."""


def list_parts(config: TransformerConfig, task: str) -> list[PublishedTensor]:
    """Return the table of weights."""
    parts = [
        PublishedTensor("model.shared.weight", ("encoder.embedding.table.weight",)),
        PublishedTensor("final_logits_bias", ("decoder.output.bias",), shape=(1, -1)),
        *linears(ENCODER),
    ]
    for layer in range(config.decoder_layers or config.layers):
        for published, ours in DECODER.items():
            parts += linear(published.format(layer), ours.format(layer))
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
