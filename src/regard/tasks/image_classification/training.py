"""Training of image classifiers: the loss and the set-up."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch
from regard.data.cache import CachedSet, LazyMap, cache_value
from regard.data.images import LabelledImage, digest_image
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.models.catalog import build_image_classifier
from regard.models.pretrained import PretrainedVision
from regard.models.vit import Vit
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import (
    Setup,
    TokenBatchObjective,
    digest,
    digest_splits,
    setup_task,
)
from regard.tasks.class_prediction import (
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    index_classes,
    sort_labels,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.run import ImageClassificationRun
from regard.tasks.summary import (
    DataSummary,
    count_classes,
    describe_images,
    describe_rows,
    encode_for_request,
    sample_evenly,
)
from regard.training.objectives import Carried, Loss

ClassifiedImage = tuple[LabelledImage, int]
"""An image with the index of its class."""


@dataclass(frozen=True, repr=False)
class ImageBatch(Batch):
    """Images of one size, and the index of each one's class."""

    pixels: Float[Tensor, "batch channel height width"]
    classes: Int[Tensor, " batch"]


class ImageClassificationObjective(TokenBatchObjective[ClassifiedImage, ImageBatch]):
    """The cross-entropy of the classes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(
        self,
        train: Sequence[ClassifiedImage],
        valid: Sequence[ClassifiedImage],
        config: ImageClassification,
        weights: Sequence[float] = (),
    ):
        """Prepare batches; `weights` are those of the classes in the loss."""
        self.config = config
        self.weights = torch.tensor(weights) if weights else None
        lengths = [(config.positions, config.positions)] * len(train)
        super().__init__(train, valid, config.training, lengths, "images")

    def place(self, index: int) -> str:
        return self.train[index][0].place

    def batch(self, epoch: int, indices: list[int]) -> ImageBatch:
        images = []
        classes = []
        for index in indices:
            image, label = self.train[index]
            pixels = self.config.read_pixels(image)
            seed = self.settings.seed
            augmented = self.config.augmentation(pixels, seed, epoch, index)
            images.append(self.config.images.tensor(augmented))
            classes.append(label)
        return ImageBatch(torch.stack(images), torch.tensor(classes))

    def loss(
        self,
        model: nn.Module,
        batch: ImageBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Vit | PretrainedVision)
        weights = None if self.weights is None else self.weights.to(batch.pixels.device)
        total = functional.cross_entropy(
            model(batch.pixels),
            batch.classes,
            weights,
            reduction="sum",
            label_smoothing=self.settings.label_smoothing,
        )
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Vit | PretrainedVision)
        run = ImageClassificationRun(self.config, model, ())
        images = [image for image, _ in self.valid]
        classes = [label for _, label in self.valid]
        return compute_class_metrics(run.classify(images), classes)


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: The images or the model are invalid.
    """
    splits = config.data.load()

    if isinstance(splits.train, CachedSet):
        reading = f"read as {config.images} {config.size} {config.model.channels}"
        data_digest = digest_on_disk(splits, reading, config.check_image, identify)
    else:
        splits = convert_sets(splits, config.check_image, config.data)
        data_digest = digest_splits(splits, identify)
    counts = count_labels(splits.train)
    labels = sort_labels(counts, config.data.train, config.training.start)
    train, valid, _ = (
        LazyMap(
            range(len(images)), partial(_pair_at, images, index_classes(labels, images))
        )
        for images in (splits.train, splits.valid, splits.test)
    )
    weights = compute_class_weights(config.class_weights, labels, counts)
    return setup_task(
        build_image_classifier(config.model, len(labels)),
        ImageClassificationObjective(train, valid, config, weights),
        splits,
        data_digest,
        summarize(config, splits),
        details=[f"{len(labels)} classes", f"{config.positions} positions an image"],
        files={LABELS: labels},
        fresh=("output.", "head."),
        simplest=describe_constant_accuracy(count_labels(splits.valid)),
    )


def _pair_at(
    images: Sequence[LabelledImage], classes: Sequence[int], index: int
) -> tuple[LabelledImage, int]:
    return images[index], classes[index]


def identify(image: LabelledImage) -> str:
    """Return an image with its class as a line, for the digest of the data."""
    return f"{digest_image(image.image)}\0{image.label}\n"


def summarize(
    config: ImageClassification, splits: Splits[LabelledImage]
) -> DataSummary:
    """Summarize the images, and what the model reads of them."""
    classes = count_classes(count_labels(splits.train))
    images, warnings = describe_images(
        [image.image for image in sample_evenly(splits.train)],
        config.size,
        config.model.channels,
        cropped=config.images.shape == "kept",
    )
    first = splits.train[0]
    return DataSummary(
        unit="images",
        rows=describe_rows(config.data, splits),
        classes=classes,
        images=images,
        example={"image": first.place, "class": first.label},
        request={"image": encode_for_request(first.image)},
        warnings=warnings,
    )


def digest_on_disk(
    splits: Splits[LabelledImage],
    reading: str,
    decodable: Callable[[LabelledImage], LabelledImage],
    line: Callable[[LabelledImage], str],
) -> str:
    """Return the digest of images on disk, cached by how they are read.

    Args:
        splits: The sets.
        reading: Describes how images are read.
        decodable: Returns an image after decoding it once.
        line: Returns the text that identifies an image.

    Raises:
        InputError: An image cannot be read.
    """

    def describe(images: Sequence[LabelledImage]) -> Iterator[str]:
        return (line(decodable(image)) for image in images)

    def digest_once(images: Sequence[LabelledImage]) -> str:
        return cache_value(images, reading, lambda: digest(describe(images)))

    valid = digest_once(splits.valid)
    digest_once(splits.test)
    parts = chain(describe(splits.train), map(line, splits.valid))
    return cache_value(splits.train, f"{reading} {valid}", lambda: digest(parts))
