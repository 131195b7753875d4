"""Set up training: images, model and objective from a run file."""

from regard.data.images import LabelledImage, contents
from regard.data.splits import Splits
from regard.data.usable import usable_sets
from regard.models.vit import Vit
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.class_prediction import class_indices, class_weights, training_labels
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.training import ImageClassificationObjective, decodable
from regard.tasks.label_checks import imbalance
from regard.tasks.setup import Setup, digest
from regard.tasks.summary import DataSummary, class_counts, images_seen, rows, sent
from regard.training.state import count_parameters


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: the images or the model are invalid.
    """
    splits = usable_sets(config.data.load(), lambda each: decodable(each, config), config.data)
    labels = training_labels(splits.train, config.data.train, config.training.start)
    train, valid, _ = (
        list(zip(images, class_indices(labels, images), strict=True))
        for images in (splits.train, splits.valid, splits.test)
    )
    weights = class_weights(config.class_weights, labels, splits.train)
    model = Vit(len(labels), config.model)
    return Setup(
        model,
        ImageClassificationObjective(train, valid, config, weights),
        digest(f"{contents(each.image)}\0{each.label}\n" for each in (*splits.train, *splits.valid)),
        f"{len(train):,} images to train on, {len(valid):,} to validate, {len(splits.test):,} to test; {len(labels)} "
        f"classes; {config.positions} positions an image; {count_parameters(model):,} parameters",
        tests=splits.test,
        files={LABELS: labels},
        fresh=("output.", "taught."),
        data=summary(config, splits),
    )


def summary(config: ImageClassification, splits: Splits[LabelledImage]) -> DataSummary:
    """The images before training, and what the model reads of them."""
    classes = class_counts(each.label for each in splits.train)
    images, warnings = images_seen([each.image for each in splits.train], config.size, config.model.channels)
    return DataSummary(
        unit="images",
        rows=rows(config.data, splits),
        classes=classes,
        images=images,
        example={"image": splits.train[0].place, "class": splits.train[0].label},
        request={"image": sent(splits.train[0].image)},
        warnings=(*warnings, *([] if config.class_weights else imbalance(classes))),
    )
