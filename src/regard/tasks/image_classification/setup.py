"""Set up training: images, model and objective from a run file."""

import numpy as np

from regard.data.images import contents
from regard.errors import InputError
from regard.models.vit import Vit
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.classification.setup import ordered
from regard.tasks.classification.training import numbers
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.training import ImageClassificationObjective, pixels_of
from regard.tasks.setup import Setup, digest
from regard.training.state import count_parameters


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: the images or the model are invalid.
    """
    splits = config.data.load()
    labels = ordered(sorted({each.label for each in splits.train}), config.training.start)
    if len(labels) < 2:
        raise InputError(f"{config.data.train}: every label is {labels[0]!r}; expected two classes or more")
    train, valid, _ = (
        list(zip(images, numbers(labels, images), strict=True)) for images in (splits.train, splits.valid, splits.test)
    )
    for each in (*splits.train, *splits.valid, *splits.test):
        if not isinstance(each.image, np.ndarray):
            pixels_of(each, config)
    model = Vit(len(labels), config.model)
    return Setup(
        model,
        ImageClassificationObjective(train, valid, config),
        digest(f"{contents(each.image)}\0{each.label}\n" for each in (*splits.train, *splits.valid)),
        f"{len(train):,} images to train on, {len(valid):,} to validate, {len(splits.test):,} to test; {len(labels)} "
        f"classes; {config.positions} positions an image; {count_parameters(model):,} parameters",
        tests=splits.test,
        files={LABELS: labels},
        fresh=("output.", "taught."),
    )
