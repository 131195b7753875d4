"""Training of image classifiers: the loss and the set-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch
from regard.data.cache import CachedSet, Zipped
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
    digest_on_disk,
    digest_splits,
    setup_task,
)
from regard.tasks.class_prediction import (
    compute_class_metrics,
    compute_class_weights,
    count_labels,
    describe_constant_accuracy,
    imbalance,
    index_classes,
    sort_labels,
)
from regard.tasks.image_classification.config import ImageClassification
from regard.tasks.image_classification.run import (
    ImageClassificationRun,
    check_image,
    read_pixels,
)
from regard.tasks.summary import (
    DataSummary,
    describe_images,
    describe_rows,
    encode_for_request,
    sample_evenly,
    sort_counts,
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
        examples = []
        for index in indices:
            image, label = self.train[index]
            pixels = read_pixels(image, self.config)
            seed = self.settings.seed
            augmented = self.config.augmentation(pixels, seed, epoch, index)
            examples.append((self.config.images.tensor(augmented), label))
        return collate_images(examples)

    def loss(
        self,
        model: nn.Module,
        batch: ImageBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Vit | PretrainedVision)
        weights = None if self.weights is None else self.weights.to(batch.pixels.device)
        logits, smoothing = model.both(batch.pixels), self.settings.label_smoothing
        total = distillation(logits, batch.classes, batch.classes, smoothing, weights)
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Vit | PretrainedVision)
        run = ImageClassificationRun(self.config, model, ())
        images = [image for image, _ in self.valid]
        classes = [label for _, label in self.valid]
        return compute_class_metrics(run.classify(images), classes)


def collate_images(
    examples: Sequence[tuple[Float[Tensor, "channel height width"], int]],
) -> ImageBatch:
    """Collate images of one size with their classes.

    Raises ValueError for no images.
    """
    if not examples:
        raise ValueError("collate_images() got no examples; expected at least one")
    classes = torch.tensor([label for _, label in examples], dtype=torch.int64)
    return ImageBatch(torch.stack([pixels for pixels, _ in examples]), classes)


def distillation(
    logits: tuple[Float[Tensor, "batch class"], Float[Tensor, "batch class"]],
    classes: Int[Tensor, " batch"],
    taught: Int[Tensor, " batch"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " class"] | None = None,
) -> Float[Tensor, ""]:
    """Average two weighted cross-entropies, each summed (Touvron 2021, equation 3).

    Args:
        logits: Those of the first token, and those of the second.
        classes: What the first token predicts.
        taught: What the second predicts: the classes of a teacher.
        smoothing: Label smoothing.
        weights: The weight of each class.
    """
    first, second = (
        functional.cross_entropy(
            scores, labels, weights, reduction="sum", label_smoothing=smoothing
        )
        for scores, labels in zip(logits, (classes, taught), strict=True)
    )
    return (first + second) / 2


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: The images or the model are invalid.
    """
    splits = config.data.load()

    def check(image: LabelledImage) -> LabelledImage:
        return check_image(image, config)

    if isinstance(splits.train, CachedSet):
        reading = f"read as {config.images} {config.size} {config.model.channels}"
        data_digest = digest_on_disk(splits, reading, check, identify)
    else:
        splits = convert_sets(splits, check, config.data)
        data_digest = digest_splits(splits, identify)
    counts = count_labels(splits.train)
    labels = sort_labels(counts, config.data.train, config.training.start)
    train, valid, _ = (
        Zipped(images, index_classes(labels, images))
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
        fresh=("output.", "taught.", "head."),
        simplest=describe_constant_accuracy(count_labels(splits.valid)),
    )


def identify(image: LabelledImage) -> str:
    """Return an image with its class as a line, for the digest of the data."""
    return f"{digest_image(image.image)}\0{image.label}\n"


def summarize(
    config: ImageClassification, splits: Splits[LabelledImage]
) -> DataSummary:
    """Summarize the images, and what the model reads of them."""
    classes = sort_counts(count_labels(splits.train))
    images, warnings = describe_images(
        [image.image for image in sample_evenly(splits.train)],
        config.size,
        config.model.channels,
        cropped=config.images.shape == "kept",
    )
    if not config.class_weights:
        warnings = (*warnings, *imbalance(classes))
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
