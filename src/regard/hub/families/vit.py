"""ViT and DeiT: published configuration and weights, in both directions."""

from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.families.weights import Family, Part, linear, require
from regard.models.vit import VitConfig

LAYER = "encoder.layers.{}"
ATTENTION = f"{LAYER}.self_attention"
PATCHES, POSITIONS = "encoder.patches.weight", "encoder.positions.table"
MARKS = "encoder.marks"
FIRST, SECOND = "first mark", "second mark"
"""The published [CLS] and DeiT token, rows of one parameter in regard."""
SIZES = {
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
ARCHITECTURES = {
    "vit": "ViTForImageClassification",
    "deit": "DeiTForImageClassificationWithTeacher",
}

EMBEDDING = "embedding"
ENCODERS = ("ViTModel", "DeiTModel")
"""Classes without a classification layer."""


def read_config(values: Any, architecture: str) -> VitConfig:
    """Read a published configuration."""
    if values.hidden_act != "gelu" or not values.qkv_bias:
        raise InputError(
            f"hidden_act is {values.hidden_act}, qkv_bias {values.qkv_bias}"
        )
    if architecture not in (*ARCHITECTURES.values(), *ENCODERS):
        raise InputError(f"the class is {architecture}")
    sizes = {field: getattr(values, key) for field, key in SIZES.items()}
    return VitConfig(**sizes, distilled=values.model_type == "deit")


def write_config(config: VitConfig, task: str) -> dict[str, Any]:
    """Write a published configuration."""
    require(config, positions="learned", pooling="first", stem="linear")
    kind = "deit" if config.distilled else "vit"
    return {
        "architectures": [ARCHITECTURES[kind]],
        "model_type": kind,
        **{key: getattr(config, field) for field, key in SIZES.items()},
        "hidden_act": "gelu",
        "attention_probs_dropout_prob": 0.0,
        "qkv_bias": True,
    }


def parts(config: VitConfig, task: str) -> tuple[Part, ...]:
    """Return the table of weights; `embedding` stands for a model without classes."""
    name = "deit" if config.distilled else "vit"
    layer = f"{name}.encoder.layer.{{}}"
    table = (
        Part(f"{name}.embeddings.cls_token", (FIRST,)),
        Part(f"{name}.embeddings.position_embeddings", (POSITIONS,)),
        *linear(f"{name}.embeddings.patch_embeddings.projection", "encoder.patches"),
        *linear(f"{layer}.layernorm_before", f"{LAYER}.residuals.0.norm"),
        *linear(f"{layer}.attention.attention.query", f"{ATTENTION}.query"),
        *linear(f"{layer}.attention.attention.key", f"{ATTENTION}.key"),
        *linear(f"{layer}.attention.attention.value", f"{ATTENTION}.value"),
        *linear(f"{layer}.attention.output.dense", f"{ATTENTION}.output"),
        *linear(f"{layer}.layernorm_after", f"{LAYER}.residuals.1.norm"),
        *linear(f"{layer}.intermediate.dense", f"{LAYER}.feedforward.0"),
        *linear(f"{layer}.output.dense", f"{LAYER}.feedforward.2"),
        *linear(f"{name}.layernorm", "encoder.norm"),
    )
    if config.distilled:
        table = (*table, Part("deit.embeddings.distillation_token", (SECOND,)))
    if task == EMBEDDING:
        return table
    if not config.distilled:
        return (*table, *linear("classifier", "output"))
    return (
        *table,
        *linear("cls_classifier", "output"),
        *linear("distillation_classifier", "taught"),
    )


def to_ours(tensors: dict[str, Tensor], config: VitConfig) -> dict[str, Tensor]:
    """Reshape published tensors to parameters."""
    result = dict(tensors)
    result[PATCHES] = result[PATCHES].flatten(1)
    result[POSITIONS] = result[POSITIONS].flatten(0, -2)
    marks = [result.pop(name) for name in (FIRST, SECOND) if name in result]
    result[MARKS] = torch.cat([mark.flatten(0, -2) for mark in marks])
    return result


def to_published(tensors: dict[str, Tensor], config: VitConfig) -> dict[str, Tensor]:
    """Reshape parameters to published tensors."""
    result = dict(tensors)
    shape = config.width, config.channels, config.patch, config.patch
    result[PATCHES] = result[PATCHES].reshape(shape)
    result[POSITIONS] = result[POSITIONS][None]
    for name, mark in zip((FIRST, SECOND), result.pop(MARKS), strict=False):
        result[name] = mark[None, None]
    return result


CONSUMED = frozenset({*SIZES.values(), "hidden_act", "qkv_bias", "encoder_stride"})
CONSUMED |= {"pooler_output_size", "pooler_act"}
FAMILY = Family(CONSUMED, read_config, write_config, parts, to_ours, to_published)
