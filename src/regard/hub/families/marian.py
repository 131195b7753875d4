"""Marian's translation models (Tiedemann and Thottingal 2020), in both directions.

They are Transformers with norms after the residuals and one shared embedding. Targets
begin with the padding token, which is never predicted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import Family, Part, linear, require
from regard.models.transformer import TransformerConfig

TABLE, BIAS = "encoder.embedding.table.weight", "decoder.output.bias"
SHARED, LOGITS = "model.shared.weight", "final_logits_bias"
TIED = ("decoder.embedding.table.weight", "decoder.output.weight")
"""Parameters of regard that are tied to the embedding."""
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
SAME = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_vocab_size": "vocab_size",
    "decoder_start_token_id": "pad_token_id",
}
"""Published keys that have the value of another."""


class MarianFamily(Family):
    """Marian's Transformer."""

    sizes: ClassVar[Mapping[str, str]] = {
        "layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "width": "d_model",
        "hidden": "encoder_ffn_dim",
        "heads": "encoder_attention_heads",
        "max_length": "max_position_embeddings",
        "dropout": "dropout",
        "scaled": "scale_embedding",
    }
    fixed: ClassVar[Mapping[str, Any]] = FIXED

    def read_config(self, values: Any, architecture: str) -> TransformerConfig:
        """Read a published configuration."""
        for key, twin in SAME.items():
            if getattr(values, key) != getattr(values, twin):
                raise InputError(f"{key} differs from {twin}")
        if values.activation_function not in ACTIVATIONS:
            raise InputError(f"the activation is {values.activation_function}")
        activation: Any = ACTIVATIONS[values.activation_function]
        return TransformerConfig(
            **self.read_sizes(values), **EXPECTED, activation=activation
        )

    def write_config(self, config: TransformerConfig, task: str) -> dict[str, Any]:
        """Write a published configuration."""
        require(config, **EXPECTED)
        if config.key_value_heads not in (None, config.heads):
            raise InputError(
                f"model.key_value_heads is {config.key_value_heads}; a published Marian "
                "has as many as heads"
            )
        return {
            "architectures": ["MarianMTModel"],
            "model_type": "marian",
            "is_encoder_decoder": True,
            **self.write_sizes(config),
            **FIXED,
            "decoder_layers": config.decoder_layers or config.layers,
            "decoder_attention_heads": config.heads,
            "decoder_ffn_dim": config.hidden,
            "activation_function": config.activation,
        }

    def parts(self, config: TransformerConfig, task: str) -> list[Part]:
        """Return the table of weights."""
        table = [Part(SHARED, (TABLE,)), Part(LOGITS, (BIAS,))]
        attentions = {"self_attn": "self_attention"}
        for number in range(config.layers):
            table += _layer(f"encoder.layers.{number}", attentions)
        attentions["encoder_attn"] = "cross_attention"
        for number in range(config.decoder_layers or config.layers):
            table += _layer(f"decoder.layers.{number}", attentions)
        return table

    def to_ours(
        self, tensors: dict[str, Tensor], config: TransformerConfig
    ) -> dict[str, Tensor]:
        """Repeat the embedding, and flatten the bias."""
        bias = tensors[BIAS].flatten()
        ties = dict.fromkeys(TIED, tensors[TABLE])
        return tensors | {BIAS: bias} | ties

    def to_published(
        self, tensors: dict[str, Tensor], config: TransformerConfig
    ) -> dict[str, Tensor]:
        """Add the axis that the published bias has."""
        return tensors | {BIAS: tensors[BIAS][None]}


def _layer(ours: str, attentions: Mapping[str, str]) -> Iterator[Part]:
    names = {"q": "query", "k": "key", "v": "value", "out": "output"}
    published = f"model.{ours}"
    for index, (attention, name) in enumerate(attentions.items()):
        for short, projection in names.items():
            yield from linear(
                f"{published}.{attention}.{short}_proj", f"{ours}.{name}.{projection}"
            )
        norm = f"{ours}.residuals.{index}.norm"
        yield from linear(f"{published}.{attention}_layer_norm", norm)
    yield from linear(f"{published}.fc1", f"{ours}.feedforward.0")
    yield from linear(f"{published}.fc2", f"{ours}.feedforward.2")
    last = f"{ours}.residuals.{len(attentions)}.norm"
    yield from linear(f"{published}.final_layer_norm", last)
