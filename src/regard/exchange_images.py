"""Models for images from and to the forms in which others publish them."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.images import ImageFolders
from regard.models.vit import Vit
from regard.pretrained import families
from regard.pretrained.folder import Folder
from regard.pretrained.opened import OpenedImages
from regard.tasks.image_classification.run_file import ImageClassification
from regard.training.settings import Training
from regard.training.tensors import load_into

BATCHES = 1, 2, 3
"""Images with which an export is checked."""


def described(opened: OpenedImages, rate: float) -> ImageClassification:
    """The run file of an imported model: its data are still to be named."""
    positions = opened.config.marks + ((opened.images.size or opened.config.image) // opened.config.patch) ** 2
    training = Training(batch_tokens=max(Training.batch_tokens, 16 * positions), learning_rate=rate)
    return ImageClassification(data=ImageFolders(), images=opened.images, model=opened.config, training=training)


def built(opened: OpenedImages) -> Vit:
    """The model with its weights. Raises InputError that lists what does not fit."""
    model = Vit(len(opened.labels), opened.config)
    load_into(model, opened.tensors)
    return model.eval()


def compared(model: Vit, out: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """The logits of a model, and what they must equal: those of what was exported of it to `out`, read back and, where
    transformers is installed, run by it."""
    again, loaded, config = built(families.read(Folder(out))), published(out), model.config
    for images in BATCHES:
        shape = images, config.channels, config.image, config.image
        pixels = torch.linspace(-2, 2, images * config.channels * config.image**2).sin().view(shape)
        own = model(pixels)
        yield own, again(pixels)
        if loaded is not None:
            yield own, loaded(pixels).logits


def published(folder: Path) -> Any:
    """The model as transformers runs it; None where that is not installed."""
    if find_spec("transformers") is None:
        return None
    import transformers

    if Folder(folder).json("config.json")["model_type"] == "deit":
        kind = transformers.DeiTForImageClassificationWithTeacher
    else:
        kind = transformers.ViTForImageClassification
    return kind.from_pretrained(folder, local_files_only=True).eval()
