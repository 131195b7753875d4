"""Conversion of pretrained image models to runs, and the check of their export."""

from pathlib import Path
from typing import Any

import torch

from regard.hub.formats import families
from regard.hub.formats.folder import Folder
from regard.hub.formats.pretrained_model import PretrainedImageModel
from regard.hub.tolerances import as_transformers, checked_against, compare
from regard.models.vit import Vit
from regard.storage.tensors import load_into
from regard.training.settings import Training

BATCHES = 1, 2, 3
"""Numbers of images in the batches that check an export."""


def image_run_config(pretrained: PretrainedImageModel, rate: float) -> dict[str, Any]:
    """As `run_config`, for an image model."""
    config, images = pretrained.config, pretrained.images
    positions = config.marks + ((images.size or config.image) // config.patch) ** 2
    training = {
        "batch_tokens": max(Training.batch_tokens, 16 * positions),
        "learning_rate": rate,
    }
    return {"images": images, "model": config, "training": training}


def build_image_model(pretrained: PretrainedImageModel) -> Vit:
    """The model with its weights. Raises InputError listing the tensors that do not fit."""
    model = Vit(len(pretrained.labels), pretrained.config)
    load_into(model, pretrained.tensors)
    return model.eval()


def check_image_parity(model: Vit, out: Path) -> list[str]:
    """Compare an image model with its export, as `check_parity` does."""
    again, config = build_image_model(families.read(Folder(out))), model.config
    kind = (
        "DeiTForImageClassificationWithTeacher"
        if config.distilled
        else "ViTForImageClassification"
    )
    loaded = as_transformers(out, kind)
    for images in BATCHES:
        shape = images, config.channels, config.image, config.image
        pixels = (
            torch.linspace(-2, 2, images * config.channels * config.image**2)
            .sin()
            .view(shape)
        )
        with torch.no_grad():
            own = model(pixels)
            compare(own, again(pixels), out)
            if loaded is not None:
                compare(own, loaded(pixels).logits, out)
    return checked_against(loaded is not None)
