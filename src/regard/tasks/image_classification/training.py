"""Training of image classifiers: files to batches, the loss and the metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.batching import Batch
from regard.data.images import LabelledImage
from regard.data.token_batches import batch_size, token_batches
from regard.images import Pixels
from regard.models.vit import Vit
from regard.shapes import Float, Int
from regard.tasks.class_prediction import class_metrics
from regard.tasks.image_classification.config import ImageClassification
from regard.training.objective import Carried, Loss
from regard.work import computed

ROWS = 64
"""Images in one batch of evaluation."""
Example = tuple[LabelledImage, int]
"""An image with the index of its class."""


@dataclass(frozen=True, repr=False)
class ImageBatch(Batch):
    """Images of one size, and the number of each one's class."""

    pixels: Float[Tensor, "batch channel height width"]
    classes: Int[Tensor, " batch"]


class ImageClassificationObjective:
    """The cross-entropy of the classes."""

    metric, higher_is_better, unit = "accuracy", True, "images"

    def __init__(
        self,
        train: Sequence[Example],
        valid: Sequence[Example],
        config: ImageClassification,
        weights: Sequence[float] = (),
    ):
        """`weights` are those of the classes in the loss; none are all 1. Raises InputError for no images."""
        self.weights = torch.tensor(weights) if weights else None
        self.train, self.valid, self.config, self.settings = (
            train,
            valid,
            config,
            config.training,
        )
        self.lengths = [(config.positions, config.positions)] * len(train)
        self.tokens = batch_size(
            self.lengths, self.settings.batch_tokens, "training images"
        )

    def place(self, index: int) -> str:
        """Where a training image came from."""
        return self.train[index][0].place

    def batches(self, epoch: int) -> Sequence[list[int]]:
        return token_batches(self.lengths, self.tokens, self.settings.seed, epoch)

    def batch(self, epoch: int, indices: list[int]) -> ImageBatch:
        return collate_images(
            [(self._seen(epoch, index), self.train[index][1]) for index in indices]
        )

    def loss(
        self,
        model: nn.Module,
        batch: ImageBatch,
        update: int,
        carried: Carried | None = None,
    ) -> Loss:
        assert isinstance(model, Vit)
        weights = None if self.weights is None else self.weights.to(batch.pixels.device)
        smoothing = self.settings.label_smoothing
        total = distillation(
            model.both(batch.pixels), batch.classes, batch.classes, smoothing, weights
        )
        return Loss(total, len(batch.classes))

    def validate(self, model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Vit)
        images = [each for each, _ in self.valid]
        return class_metrics(
            probabilities(model, images, self.config),
            [number for _, number in self.valid],
        )

    def _seen(self, epoch: int, index: int) -> Float[Tensor, "channel height width"]:
        """The augmented image of an epoch."""
        pixels = pixels_of(self.train[index][0], self.config)
        return self.config.images.tensor(
            self.config.augmentation(pixels, self.settings.seed, epoch, index)
        )


def collate_images(
    examples: Sequence[tuple[Float[Tensor, "channel height width"], int]],
) -> ImageBatch:
    """Images of one size with their classes. Raises ValueError for an empty list."""
    if not examples:
        raise ValueError("collate_images() got no examples; expected at least one")
    classes = torch.tensor([each for _, each in examples], dtype=torch.int64)
    return ImageBatch(torch.stack([pixels for pixels, _ in examples]), classes)


def distillation(
    logits: tuple[Float[Tensor, "batch class"], Float[Tensor, "batch class"]],
    classes: Int[Tensor, " batch"],
    taught: Int[Tensor, " batch"],
    smoothing: float = 0.0,
    weights: Float[Tensor, " class"] | None = None,
) -> Float[Tensor, ""]:
    """The mean of two weighted cross-entropies, each summed: that of the first token's logits with the classes, and
    that of the second's with the classes that a teacher predicts (Touvron 2021, equation 3)."""
    first, second = (
        functional.cross_entropy(
            each, labels, weights, reduction="sum", label_smoothing=smoothing
        )
        for each, labels in zip(logits, (classes, taught), strict=True)
    )
    return (first + second) / 2


def pixels_of(each: LabelledImage, config: ImageClassification) -> Pixels:
    """The pixels of an image as the model's input. Raises InputError for one that cannot be read."""
    return config.images.pixels(
        each.image, config.size, config.model.channels, each.place
    )


def decodable(each: LabelledImage, config: ImageClassification) -> LabelledImage:
    """The same image. Raises InputError for a file that cannot be read."""
    if not isinstance(each.source, np.ndarray):  # `image` would read the file once more
        pixels_of(each, config)
    return each


@torch.no_grad()
def probabilities(
    model: Vit, images: Sequence[LabelledImage], config: ImageClassification
) -> Float[Tensor, "image class"]:
    """The examples of images and their classes. Raises InputError for an image that cannot be read."""
    device = next(model.parameters()).device

    def shares(first: int) -> Tensor:
        some = [
            config.images.tensor(pixels_of(each, config))
            for each in images[first : first + ROWS]
        ]
        return model(torch.stack(some).to(device)).softmax(-1).cpu()

    found = computed(shares, range(0, len(images), ROWS))
    return torch.cat([torch.zeros(0, model.classes), *found])
