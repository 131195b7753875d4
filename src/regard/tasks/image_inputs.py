"""What tasks of images share: how run files prepare them, and how runs parse them."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from regard.data.inputs import image_at
from regard.images import Augmentation, Image, Pixels, Preparation, read_image
from regard.tasks.base import input_columns
from regard.tasks.options import Json
from regard.tasks.run import Run
from regard.tasks.summary import SeenImages, describe_images, sample_evenly

T = TypeVar("T")


class ImageSettings:
    """A part of run files: the preparation of images, which have `image` and `place`."""

    images: Preparation
    augmentation: Augmentation
    model: Any
    side_key: ClassVar[str] = "model.image"
    """The key of the side of the model's images."""

    @property
    def size(self) -> int:
        """The side of the images, in pixels."""
        return self.images.size or self.model.image

    def check_sizes(self, side: int) -> None:
        """Raise ValueError for images of other sizes or channels than the model's."""
        if self.images.size not in (None, side):
            raise ValueError(
                f"images.size is {self.images.size}, but {self.side_key} is {side}; "
                "remove images.size"
            )
        self.images.check_channels(self.model.channels)

    def read_pixels(self, image: Any) -> Pixels:
        """Read an image as the model's input. Raises InputError for an unreadable one."""
        channels = self.model.channels
        return self.images.pixels(image.image, self.size, channels, image.place)

    def check_image(self, image: T) -> T:
        """Return the image. Raises InputError for one that can't be read."""
        self.read_pixels(image)
        return image

    def read_batch(self, images: Sequence[Any]) -> Tensor:
        """Read images as a batch. Raises InputError for an unreadable one."""
        tensors = [self.images.tensor(self.read_pixels(image)) for image in images]
        return torch.stack(tensors)

    def augment(self, image: Any, seed: int, epoch: int, index: int) -> Tensor:
        """Read an image and change it, as a function of the arguments only."""
        pixels = self.augmentation(self.read_pixels(image), seed, epoch, index)
        return self.images.tensor(pixels)

    def describe(self, images: Sequence[Any]) -> SeenImages:
        """Describe images before and after their preparation (`describe_images`)."""
        return describe_images(
            [image.image for image in sample_evenly(images)],
            self.size,
            self.model.channels,
            self.side_key,
            cropped=self.images.shape == "kept",
        )


class ImageRun(Run[Image, Any]):
    """A part of runs whose examples are images."""

    config: Any
    inputs = {"image": bytes}
    tables: ClassVar[Any]
    """The `data:` section of tables of image files."""

    def parse(self, line: str, place: str = "text 1") -> Image:
        data = self.config.data
        files = data.files if isinstance(data, self.tables) else None
        column = input_columns(self)["image"]
        return image_at(line, column, files, place)

    def example(self, values: Json) -> Image:
        read_image(values["image"])
        return values["image"]
