"""ViT: published configuration and weights, in both directions."""

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
from regard.models.vit import VitConfig

MODULES = {
    "vit.encoder.layer.{}.layernorm_before": "encoder.layers.{}.residuals.0.norm",
    "vit.encoder.layer.{}.attention.attention.query": "encoder.layers.{}.self_attention.query",
    "vit.encoder.layer.{}.attention.attention.key": "encoder.layers.{}.self_attention.key",
    "vit.encoder.layer.{}.attention.attention.value": "encoder.layers.{}.self_attention.value",
    "vit.encoder.layer.{}.attention.output.dense": "encoder.layers.{}.self_attention.output",
    "vit.encoder.layer.{}.layernorm_after": "encoder.layers.{}.residuals.1.norm",
    "vit.encoder.layer.{}.intermediate.dense": "encoder.layers.{}.feedforward.0",
    "vit.encoder.layer.{}.output.dense": "encoder.layers.{}.feedforward.2",
    "vit.layernorm": "encoder.norm",
}
"""Published linear maps and norms, and ours."""
ARCHITECTURE = "ViTForImageClassification"
EMBEDDING = "embedding"
"""The task of a model without classes."""
ENCODER = "ViTModel"
"""The class without a classification layer."""


def read(values: Any, architecture: str) -> Keys:
    """Return no further field. Raise InputError for another class."""
    if architecture not in (ARCHITECTURE, ENCODER):
        raise InputError(f"the class is {architecture}")
    return {}


def write(config: VitConfig, task: str) -> Keys:
    """Return the class and the dropout of attention."""
    require(config, pooling="first", stem="linear")
    return {"architectures": [ARCHITECTURE], "attention_probs_dropout_prob": 0.0}


def list_parts(config: VitConfig, task: str) -> list[PublishedTensor]:
    """Return the table of weights."""
    shape = config.width, config.channels, config.patch, config.patch
    rows = (1, -1, config.width)
    patches = "vit.embeddings.patch_embeddings.projection"
    positions = "vit.embeddings.position_embeddings"
    parts = [
        PublishedTensor("vit.embeddings.cls_token", ("encoder.marks",), shape=rows),
        PublishedTensor(positions, ("encoder.positions.table",), shape=rows),
        PublishedTensor(f"{patches}.weight", ("encoder.patches.weight",), shape=shape),
        PublishedTensor(f"{patches}.bias", ("encoder.patches.bias",)),
        *linears(MODULES),
    ]
    if task != EMBEDDING:
        parts += linear("classifier", "output")
    return parts


VIT = Family(
    config=VitConfig,
    sizes={
        "layers": "num_hidden_layers",
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "hidden": "intermediate_size",
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "dropout": "hidden_dropout_prob",
        "epsilon": "layer_norm_eps",
    },
    fixed={"hidden_act": "gelu", "qkv_bias": True},
    read=read,
    write=write,
    parts=list_parts,
)
