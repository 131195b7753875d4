"""ViT in its published form, and DeiT, which has a second token and a second classification layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.hub.formats import preprocessor
from regard.hub.formats.folder import CONFIG, Folder
from regard.hub.formats.names import Part, check_sizes, exported, imported, linear
from regard.hub.formats.pretrained_model import Files, PretrainedImageModel
from regard.hub.formats.settings import Settings, check_attention, label_keys
from regard.models.vit import VitConfig

OWN = "encoder.layers.{}"
PATCHES, POSITIONS, MARKS = (
    "encoder.patches.weight",
    "encoder.positions.table",
    "encoder.marks",
)
FIRST, SECOND = "first mark", "second mark"
"""The published [CLS] and DeiT token, rows of one parameter in regard."""
PARTS = (
    Part("embeddings.cls_token", (FIRST,)),
    Part("embeddings.position_embeddings", (POSITIONS,)),
    *linear("embeddings.patch_embeddings.projection", "encoder.patches"),
    *linear("encoder.layer.{}.layernorm_before", f"{OWN}.residuals.0.norm"),
    *linear(
        "encoder.layer.{}.attention.attention.query", f"{OWN}.self_attention.query"
    ),
    *linear("encoder.layer.{}.attention.attention.key", f"{OWN}.self_attention.key"),
    *linear(
        "encoder.layer.{}.attention.attention.value", f"{OWN}.self_attention.value"
    ),
    *linear("encoder.layer.{}.attention.output.dense", f"{OWN}.self_attention.output"),
    *linear("encoder.layer.{}.layernorm_after", f"{OWN}.residuals.1.norm"),
    *linear("encoder.layer.{}.intermediate.dense", f"{OWN}.feedforward.0"),
    *linear("encoder.layer.{}.output.dense", f"{OWN}.feedforward.2"),
    *linear("layernorm", "encoder.norm"),
)
FIXED = {"hidden_act": ("gelu",), "qkv_bias": (True,), "pruned_heads": ({},)}
SIZES = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "image": "image_size",
    "patch": "patch_size",
    "channels": "num_channels",
}
USED = (*SIZES.values(), "hidden_dropout_prob", "layer_norm_eps")
IGNORED = (
    "attention_probs_dropout_prob",
    "encoder_stride",
    "pooler_output_size",
    "pooler_act",
)
DEFAULTS = VitConfig(layers=12, width=768, heads=12, hidden=3072)


@dataclass(frozen=True)
class VitVariant:
    """The names of the models of one `model_type`; `heads` are their classification layers."""

    name: str
    architecture: str
    heads: tuple[Part, ...]
    distilled: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return every tensor."""
        second = (
            (Part("embeddings.distillation_token", (SECOND,)),)
            if self.distilled
            else ()
        )
        return (*PARTS, *second, *self.heads)


VIT = VitVariant(
    "vit", "ViTForImageClassification", linear("classifier", "output"), distilled=False
)
DEIT = VitVariant(
    "deit",
    "DeiTForImageClassificationWithTeacher",
    (*linear("cls_classifier", "output"), *linear("distillation_classifier", "taught")),
    distilled=True,
)


def read(folder: Folder, variant: VitVariant) -> PretrainedImageModel:
    """Read the classifier in a folder, or the encoder alone, without its pooler. Raises InputError for a model of
    another variant."""
    settings = Settings(folder.json(CONFIG), str(folder.path / CONFIG))
    settings.check(USED, FIXED, IGNORED)
    sizes: dict[str, Any] = {
        field: settings.size(key, getattr(DEFAULTS, field))
        for field, key in SIZES.items()
    }
    if sizes["channels"] not in (1, 3):
        raise InputError(
            f"{settings.place}: num_channels is {sizes['channels']}; regard supports 1 or 3 only"
        )
    sizes["dropout"] = settings.share("hidden_dropout_prob", 0.0)
    sizes["epsilon"] = settings.above("layer_norm_eps", 1e-12)
    config = settings.build(VitConfig, **sizes, distilled=variant.distilled)
    weights = {
        name.removeprefix(f"{variant.name}."): tensor
        for name, tensor in folder.tensors().items()
    }
    heads = {part.published for part in variant.heads}
    alone = not heads & set(weights)
    weights = {
        name: tensor
        for name, tensor in weights.items()
        if not (alone and name.startswith("pooler."))
    }
    if not alone:
        settings.require_classes(len(weights.get(variant.heads[0].published, ())))
    patches, positions = (
        "embeddings.patch_embeddings.projection.weight",
        "embeddings.position_embeddings",
    )
    claimed = {
        "hidden_size": (config.width, patches, 0),
        "patch_size": (config.patch, patches, 3),
        f"the number of positions for image_size {config.image}": (
            config.marks + config.side**2,
            positions,
            1,
        ),
        "intermediate_size": (
            config.hidden,
            "encoder.layer.0.intermediate.dense.weight",
            0,
        ),
    }
    check_sizes(settings.place, weights, {"num_hidden_layers": config.layers}, claimed)
    parts = [part for part in variant.parts if not (alone and part.published in heads)]
    tensors = imported(parts, weights, config.layers)
    names = () if alone else settings.labels(len(weights[variant.heads[0].published]))
    return PretrainedImageModel(
        config,
        _ours(tensors, config, str(folder.path)),
        names,
        preprocessor.read(folder, config),
    )


def write(pretrained: PretrainedImageModel) -> Files:
    """Return the published files of a model. Raises InputError for positions or pooling that no release has, and for a
    model without classes."""
    config = pretrained.config
    if not pretrained.labels:
        raise InputError(
            "this run has no classes; regard exports classifiers: train it on images with classes first"
        )
    check_attention(config, "this run")
    if (config.positions, config.pooling, config.stem) != (
        "learned",
        "first",
        "linear",
    ):
        raise InputError(
            f"a vit with {config.positions} positions, pooling {config.pooling} and a {config.stem} stem has no "
            "published form; regard exports those with learned positions, pooling first and a linear stem"
        )
    variant = DEIT if config.distilled else VIT
    document = {
        "architectures": [variant.architecture],
        "model_type": variant.name,
        **{key: getattr(config, field) for field, key in SIZES.items()},
        "hidden_act": "gelu",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": config.epsilon,
        "qkv_bias": True,
        **label_keys(pretrained.labels),
    }
    own = _theirs(pretrained.tensors, config)
    heads = {part.published for part in variant.heads}
    tensors = exported(variant.parts, own, config.layers)
    named = {
        name if name in heads else f"{variant.name}.{name}": tensor
        for name, tensor in tensors.items()
    }
    documents = {
        CONFIG: document,
        preprocessor.PREPROCESSOR: preprocessor.preprocessor_config(
            pretrained.images, config
        ),
    }
    return Files(documents, named)


def _ours(
    tensors: Mapping[str, Tensor], config: VitConfig, place: str
) -> dict[str, Tensor]:
    """Reshape published tensors to parameters. Raises InputError for patches of another shape."""
    found = dict(tensors)
    expected = config.width, config.channels, config.patch, config.patch
    if found[PATCHES].shape != expected:
        shape = tuple(found[PATCHES].shape)
        raise InputError(
            f"{place}: the linear map of the patches is {shape}, expected {expected}"
        )
    found[PATCHES] = found[PATCHES].flatten(1)
    found[POSITIONS] = found[POSITIONS].flatten(0, -2)
    marks = [found.pop(name) for name in (FIRST, SECOND) if name in found]
    return found | {MARKS: torch.cat([mark.flatten(0, -2) for mark in marks])}


def _theirs(tensors: Mapping[str, Tensor], config: VitConfig) -> dict[str, Tensor]:
    """Reshape parameters to published tensors."""
    found = dict(tensors)
    found[PATCHES] = found[PATCHES].reshape(
        config.width, config.channels, config.patch, config.patch
    )
    found[POSITIONS] = found[POSITIONS][None]
    marks = found.pop(MARKS)
    return found | {
        name: mark[None, None]
        for name, mark in zip((FIRST, SECOND), marks, strict=False)
    }
