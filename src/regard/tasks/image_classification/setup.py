"""Set up training: images, model and objective from a run file."""

from regard.data.images import LabelledImage, contents
from regard.data.splits import Splits
from regard.data.stored import Stored, Zipped
from regard.data.usable import usable_sets
from regard.models.vit import Vit
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.class_prediction import (
    class_indices,
    class_weights,
    constant_accuracy,
    label_counts,
    training_labels,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.training import (
    ImageClassificationObjective,
    decodable,
)
from regard.tasks.label_checks import imbalance
from regard.tasks.setup import Setup, digest, digest_on_disk
from regard.tasks.summary import (
    DataSummary,
    images_seen,
    most_common,
    rows,
    sampled,
    sent,
)
from regard.training.state import count_parameters


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: the images or the model are invalid.
    """
    splits = config.data.load()
    stored = isinstance(splits.train, Stored)
    if not stored:
        splits = usable_sets(splits, lambda each: decodable(each, config), config.data)
    counts = label_counts(splits.train)
    labels = training_labels(counts, config.data.train, config.training.start)
    train, valid, _ = (
        Zipped(images, class_indices(labels, images))
        for images in (splits.train, splits.valid, splits.test)
    )
    content = (
        on_disk(splits, config)
        if stored
        else digest(map(written, (*splits.train, *splits.valid)))
    )
    weights = class_weights(config.class_weights, labels, counts)
    model = Vit(len(labels), config.model)
    return Setup(
        model,
        ImageClassificationObjective(train, valid, config, weights),
        content,
        f"{len(train):,} images to train on, {len(valid):,} to validate, {len(splits.test):,} to test; {len(labels)} "
        f"classes; {config.positions} positions an image; {count_parameters(model):,} parameters",
        tests=splits.test,
        files={LABELS: labels},
        fresh=("output.", "taught."),
        data=summary(config, splits),
        simplest=constant_accuracy(label_counts(splits.valid)),
    )


def written(each: LabelledImage) -> str:
    """What the digest of the data has of an image."""
    return f"{contents(each.image)}\0{each.label}\n"


def on_disk(splits: Splits[LabelledImage], config: ImageClassification) -> str:
    """The digest of sets on disk. Raises InputError for an image that cannot be read."""
    reading = f"read as {config.images} {config.size} {config.model.channels}"
    return digest_on_disk(
        splits, reading, lambda each: decodable(each, config), written
    )


def summary(config: ImageClassification, splits: Splits[LabelledImage]) -> DataSummary:
    """The images before training, and what the model reads of them."""
    classes = most_common(label_counts(splits.train))
    images, warnings = images_seen(
        [each.image for each in sampled(splits.train)],
        config.size,
        config.model.channels,
        cropped=config.images.shape == "kept",
    )
    return DataSummary(
        unit="images",
        rows=rows(config.data, splits),
        classes=classes,
        images=images,
        example={"image": splits.train[0].place, "class": splits.train[0].label},
        request={"image": sent(splits.train[0].image)},
        warnings=(*warnings, *([] if config.class_weights else imbalance(classes))),
    )
