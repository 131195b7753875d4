"""The run file of image classification."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from regard.data.image_shards import ImageShards
from regard.data.images import IdxImages, ImageFolders, ImageTables, LabelledImage
from regard.data.inputs import first_image
from regard.images import Augmentation, Pixels, Preparation
from regard.models.catalog import ImageClassifierConfig
from regard.models.vit import VitConfig
from regard.tasks.class_prediction import ClassWeights
from regard.training.settings import Training


@dataclass(frozen=True, kw_only=True)
class ImageClassification:
    """The run file of image classification.

    A batch has room for `training.batch_tokens` patches.
    """

    task: Literal["image-classification"] = "image-classification"
    data: ImageFolders | IdxImages | ImageShards | ImageTables
    images: Preparation = field(default_factory=Preparation)
    """The preparation of images; for another `size` positions are interpolated."""
    augmentation: Augmentation = field(default_factory=Augmentation)
    model: ImageClassifierConfig = field(default_factory=VitConfig)
    class_weights: ClassWeights = None
    """Weights in the loss: `balanced`, or numbers of some classes; by default all 1."""
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.size % self.model.patch:
            raise ValueError(
                f"images.size is {self.size}, not a whole number of patches of {self.model.patch} pixels; choose "
                f"{self.model.patch} x a whole number"
            )
        self.images.check_channels(self.model.channels)
        if self.positions > self.training.batch_tokens:
            raise ValueError(
                f"training.batch_tokens is {self.training.batch_tokens}, less than one image of {self.positions} "
                "patches; raise it"
            )

    @property
    def size(self) -> int:
        """The side of the images, in pixels."""
        return self.images.size or self.model.image

    @property
    def positions(self) -> int:
        """The positions of an image: its patches and the tokens before them."""
        return self.model.marks + (self.size // self.model.patch) ** 2

    @property
    def first_image(self) -> str | None:
        """The first training image in a file of many; None for images in files."""
        return first_image(self.data.train)

    def read_pixels(self, image: LabelledImage) -> Pixels:
        """Read an image as the model's input. Raises InputError for an unreadable one."""
        size = self.size
        channels = self.model.channels
        return self.images.pixels(image.image, size, channels, image.place)

    def check_image(self, image: LabelledImage) -> LabelledImage:
        """Return the image. Raises InputError for a file that can't be read."""
        if not isinstance(image.source, np.ndarray):
            self.read_pixels(image)
        return image
