"""ViT: published configuration and weights, in both directions."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import Family, Part, linear, require
from regard.models.vit import VitConfig

LAYER = "encoder.layers.{}"
ATTENTION = f"{LAYER}.self_attention"
PATCHES, POSITIONS = "encoder.patches.weight", "encoder.positions.table"
MARKS = "encoder.marks"
ARCHITECTURE = "ViTForImageClassification"
EMBEDDING = "embedding"
ENCODER = "ViTModel"
"""The class without a classification layer."""


class VitFamily(Family):
    """ViT, with classes or without."""

    sizes: ClassVar[Mapping[str, str]] = {
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "dropout": "hidden_dropout_prob",
        "epsilon": "layer_norm_eps",
    }
    fixed: ClassVar[Mapping[str, Any]] = {"hidden_act": "gelu", "qkv_bias": True}

    def read_config(self, values: Any, architecture: str) -> VitConfig:
        """Read a published configuration."""
        if architecture not in (ARCHITECTURE, ENCODER):
            raise InputError(f"the class is {architecture}")
        return VitConfig(**self.read_sizes(values))

    def write_config(self, config: VitConfig, task: str) -> dict[str, Any]:
        """Write a published configuration."""
        require(config, pooling="first", stem="linear")
        return {
            "architectures": [ARCHITECTURE],
            "model_type": "vit",
            **self.write_sizes(config),
            **self.fixed,
            "attention_probs_dropout_prob": 0.0,
        }

    def parts(self, config: VitConfig, task: str) -> tuple[Part, ...]:
        """Return the table of weights; `embedding` stands for a model without classes."""
        layer = "vit.encoder.layer.{}"
        table = (
            Part("vit.embeddings.cls_token", (MARKS,)),
            Part("vit.embeddings.position_embeddings", (POSITIONS,)),
            *linear("vit.embeddings.patch_embeddings.projection", "encoder.patches"),
            *linear(f"{layer}.layernorm_before", f"{LAYER}.residuals.0.norm"),
            *linear(f"{layer}.attention.attention.query", f"{ATTENTION}.query"),
            *linear(f"{layer}.attention.attention.key", f"{ATTENTION}.key"),
            *linear(f"{layer}.attention.attention.value", f"{ATTENTION}.value"),
            *linear(f"{layer}.attention.output.dense", f"{ATTENTION}.output"),
            *linear(f"{layer}.layernorm_after", f"{LAYER}.residuals.1.norm"),
            *linear(f"{layer}.intermediate.dense", f"{LAYER}.feedforward.0"),
            *linear(f"{layer}.output.dense", f"{LAYER}.feedforward.2"),
            *linear("vit.layernorm", "encoder.norm"),
        )
        if task == EMBEDDING:
            return table
        return (*table, *linear("classifier", "output"))

    def to_ours(
        self, tensors: dict[str, Tensor], config: VitConfig
    ) -> dict[str, Tensor]:
        """Reshape published tensors to parameters."""
        result = dict(tensors)
        result[PATCHES] = result[PATCHES].flatten(1)
        result[POSITIONS] = result[POSITIONS].flatten(0, -2)
        result[MARKS] = result[MARKS].flatten(0, -2)
        return result

    def to_published(
        self, tensors: dict[str, Tensor], config: VitConfig
    ) -> dict[str, Tensor]:
        """Reshape parameters to published tensors."""
        result = dict(tensors)
        shape = config.width, config.channels, config.patch, config.patch
        result[PATCHES] = result[PATCHES].reshape(shape)
        result[POSITIONS] = result[POSITIONS][None]
        result[MARKS] = result[MARKS][None]
        return result
