"""Small published models for images, made by transformers with weights that are drawn."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.hub.published import quiet

VITS: list[dict[str, Any]] = [
    {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 5, "image_size": 6,
     "patch_size": 2, "num_channels": 3},
    {"hidden_size": 10, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 23, "image_size": 15,
     "patch_size": 3, "num_channels": 1},
    {"hidden_size": 21, "num_hidden_layers": 3, "num_attention_heads": 7, "intermediate_size": 11, "image_size": 35,
     "patch_size": 5, "num_channels": 3, "layer_norm_eps": 1e-6},
]  # fmt: skip
"""Sizes that no released model has."""
CLASSES = ["cat", "dog", "crane", "owl", "crane"]
PREPROCESSORS: dict[str, dict[str, Any]] = {
    "vit": {"do_resize": True, "resample": 2, "do_normalize": True},
    "deit": {"do_resize": True, "resample": 3, "do_center_crop": True, "do_normalize": True},
}


def classifier(folder: Path, kind: str, **sizes: Any) -> Any:
    """A published ViT in the folder, with the preparation of images of a kind, and as transformers runs it."""
    transformers = quiet()
    torch.manual_seed(3)
    shared = {"id2label": dict(enumerate(CLASSES)), "attn_implementation": "eager"}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, **shared))
    for parameter in model.eval().parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor(kind, **sizes)))
    return model


def preprocessor(kind: str, *, image_size: int, num_channels: int, **_: Any) -> dict[str, Any]:
    """How it wants its images."""
    larger = image_size if kind == "vit" else image_size + 2
    described = PREPROCESSORS[kind] | {"size": {"height": larger, "width": larger}}
    if kind == "deit":
        described["crop_size"] = {"height": image_size, "width": image_size}
    mean, deviation = [0.4, 0.5, 0.6][:num_channels], [0.2, 0.3, 0.1][:num_channels]
    name = {"vit": "ViTImageProcessor", "deit": "DeiTImageProcessor"}[kind]
    return described | {"image_processor_type": name, "image_mean": mean, "image_std": deviation}
