"""What an opened model for images is as a run, and whether what was exported of one computes the same."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from regard.data.images import ImageFolders
from regard.exchange.comparison import against, compare
from regard.models.vit import Vit
from regard.pretrained import families
from regard.pretrained.folder import Folder
from regard.pretrained.opened import OpenedImages
from regard.tasks.image_classification.run_file import ImageClassification
from regard.training.settings import Training
from regard.training.tensors import load_into

BATCHES = 1, 2, 3
"""Images with which an export is checked."""


def described_for_images(opened: OpenedImages, rate: float) -> ImageClassification:
    """The run file of an imported model: its data are still to be named."""
    positions = opened.config.marks + ((opened.images.size or opened.config.image) // opened.config.patch) ** 2
    training = Training(batch_tokens=max(Training.batch_tokens, 16 * positions), learning_rate=rate)
    return ImageClassification(data=ImageFolders(), images=opened.images, model=opened.config, training=training)


def built_for_images(opened: OpenedImages) -> Vit:
    """The model with its weights. Raises InputError that lists what does not fit."""
    model = Vit(len(opened.labels), opened.config)
    load_into(model, opened.tensors)
    return model.eval()


def checked_images(model: Vit, out: Path) -> list[str]:
    """As `checked`, of a model for images."""
    again, loaded, config = built_for_images(families.read(Folder(out))), published(out), model.config
    for images in BATCHES:
        shape = images, config.channels, config.image, config.image
        pixels = torch.linspace(-2, 2, images * config.channels * config.image**2).sin().view(shape)
        with torch.no_grad():
            own = model(pixels)
            compare(own, again(pixels), out)
            if loaded is not None:
                compare(own, loaded(pixels).logits, out)
    return against(loaded)


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
