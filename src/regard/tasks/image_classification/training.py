"""Training of image classifiers: the loss and the set-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batches import Batch
from regard.data.cache import CachedSet, cache_value
from regard.data.images import LabelledImage, digest_image
from regard.data.rows import convert_sets
from regard.data.splits import Splits
from regard.models.catalog import IMAGE_CLASSIFIERS
from regard.shapes import Float, Int
from regard.storage.run_folder import LABELS, RunDirectory
from regard.tasks.base import Setup, TokenBatchObjective, digest_splits, setup_task
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
    describe_rows,
    encode_for_request,
)
from regard.training.objectives import Carried, Loss


@dataclass(frozen=True, repr=False)
class ImageBatch(Batch):
    """Images of one size, and the index of each one's class."""

    pixels: Float[Tensor, "batch channel height width"]
    classes: Int[Tensor, " batch"]


class ImageClassificationObjective(TokenBatchObjective[LabelledImage, ImageBatch]):
    """The cross-entropy of the classes."""

    metric, higher_is_better = "accuracy", True

    def __init__(
        self,
        splits: Splits[LabelledImage],
        config: ImageClassification,
        labels: Sequence[str],
        weights: Sequence[float] = (),
    ):
        """Prepare batches; `weights` are those of the classes in the loss."""
        self.config = config
        self.classes = index_classes(labels, splits.train)
        self.valid_classes = index_classes(labels, splits.valid)
        self.weights = torch.tensor(weights) if weights else None
        super().__init__(
            splits.train,
            splits.valid,
            config.training,
            [(config.positions, config.positions)] * len(splits.train),
            "images",
        )

    def batch(self, epoch: int, indices: list[int]) -> ImageBatch:
        seed = self.settings.seed
        augment = self.config.augment
        images = [augment(self.train[index], seed, epoch, index) for index in indices]
        classes = torch.tensor([self.classes[index] for index in indices])
        return ImageBatch(torch.stack(images), classes)

    def loss(
        self,
        model: nn.Module,
        batch: ImageBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
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
        run = ImageClassificationRun(self.config, model, ())
        return compute_class_metrics(run.classify(self.valid), self.valid_classes)


def setup(config: ImageClassification, folder: RunDirectory, processes: int) -> Setup:
    """Read and check every image, and build model and objective.

    Raises:
        InputError: The images or the model are invalid.
    """
    splits = config.data.load()
    check = config.check_image
    if isinstance(splits.train, CachedSet):
        cached = splits.train
        reading = f"read as {config.images} {config.size} {config.model.channels}"
        cache_value(cached, reading, lambda: len(list(map(check, cached))))
        splits = Splits(
            cached, *(list(map(check, s)) for s in (splits.valid, splits.test))
        )
    else:
        splits = convert_sets(splits, check, config.data)
    counts = count_labels(splits.train)
    labels = sort_labels(counts, config.data.train, config.training.start)
    index_classes(labels, splits.test)
    images, warnings = config.describe(splits.train)
    first = splits.train[0]
    summary = DataSummary(
        unit="images",
        rows=describe_rows(config.data, splits),
        classes=count_classes(counts),
        images=images,
        example={"image": first.place, "class": first.label},
        request={"image": encode_for_request(first.image)},
        warnings=warnings,
    )
    weights = compute_class_weights(config.class_weights, labels, counts)
    return setup_task(
        IMAGE_CLASSIFIERS.build(config.model, len(labels)),
        ImageClassificationObjective(splits, config, labels, weights),
        splits,
        digest_splits(
            splits, lambda image: f"{digest_image(image.image)}\0{image.label}\n"
        ),
        summary,
        details=[f"{len(labels)} classes", f"{config.positions} positions an image"],
        files={LABELS: labels},
        fresh=("output.", "head."),
        simplest=describe_constant_accuracy(count_labels(splits.valid)),
    )
