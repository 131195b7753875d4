"""ViT: published configuration and weights, in both directions."""

from typing import Any

from regard.errors import InputError
from regard.hub.families.weights import Family, Keys, Part, linear, require
from regard.models.vit import VitConfig

LAYER = "encoder.layers.{}"
ATTENTION = f"{LAYER}.self_attention"
PUBLISHED = "vit.encoder.layer.{}"
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


def list_parts(config: VitConfig, task: str) -> list[Part]:
    """Return the table of weights."""
    embeddings = "vit.embeddings"
    patches = f"{embeddings}.patch_embeddings.projection"
    shape = config.width, config.channels, config.patch, config.patch
    rows = (1, -1, config.width)
    parts = [
        Part(f"{embeddings}.cls_token", ("encoder.marks",), shape=rows),
        Part(
            f"{embeddings}.position_embeddings",
            ("encoder.positions.table",),
            shape=rows,
        ),
        Part(f"{patches}.weight", ("encoder.patches.weight",), shape=shape),
        Part(f"{patches}.bias", ("encoder.patches.bias",)),
        *linear(f"{PUBLISHED}.layernorm_before", f"{LAYER}.residuals.0.norm"),
        *linear(f"{PUBLISHED}.attention.attention.query", f"{ATTENTION}.query"),
        *linear(f"{PUBLISHED}.attention.attention.key", f"{ATTENTION}.key"),
        *linear(f"{PUBLISHED}.attention.attention.value", f"{ATTENTION}.value"),
        *linear(f"{PUBLISHED}.attention.output.dense", f"{ATTENTION}.output"),
        *linear(f"{PUBLISHED}.layernorm_after", f"{LAYER}.residuals.1.norm"),
        *linear(f"{PUBLISHED}.intermediate.dense", f"{LAYER}.feedforward.0"),
        *linear(f"{PUBLISHED}.output.dense", f"{LAYER}.feedforward.2"),
        *linear("vit.layernorm", "encoder.norm"),
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
