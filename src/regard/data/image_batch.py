"""Batches of images with their classes, and the augmentation of training images."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated

import numpy as np
import torch
from jaxtyping import UInt8
from pydantic import Field
from torch import Tensor

from regard.data.batching import Batch
from regard.images.warping import warped
from regard.shapes import Float, Int


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images of one size, and the number of each one's class."""

    pixels: Float[Tensor, "batch channel height width"]
    classes: Int[Tensor, " batch"]


@dataclass(frozen=True)
class Augmentation:
    """Random changes of training images.

    flip: mirror half of the images, left to right.
    shift: move each by up to so many pixels in each direction (He 2016, 1512.03385, section 4.2).
    turn: rotate each by up to so many degrees either way.
    stretch: scale each side by a factor of 1 - stretch to 1 + stretch.
    slant: shift each column by up to so much of its distance from the middle.
    outside: the value of pixels from outside the image, 0 (black) to 255.
    """

    flip: bool = False
    shift: Annotated[int, Field(ge=0)] = 0
    turn: Annotated[float, Field(ge=0, le=180)] = 0.0
    stretch: Annotated[float, Field(ge=0, lt=1)] = 0.0
    slant: Annotated[float, Field(ge=0)] = 0.0
    outside: Annotated[int, Field(ge=0, le=255)] = 0

    def __call__(
        self, pixels: UInt8[np.ndarray, "height width channel"], seed: int, epoch: int, index: int
    ) -> UInt8[np.ndarray, "height width channel"]:
        """The augmented image, as a function of seed, epoch and index only."""
        draw = Random(f"{seed}/{epoch}/{index}")  # a string seed is hashed with SHA-512, the same in every process
        if self.flip and draw.random() < 0.5:
            pixels = pixels[:, ::-1]
        if self.shift:
            height, width, channels = pixels.shape
            top, left = draw.randint(0, 2 * self.shift), draw.randint(0, 2 * self.shift)
            wide = np.full((height + 2 * self.shift, width + 2 * self.shift, channels), self.outside, np.uint8)
            wide[self.shift : self.shift + height, self.shift : self.shift + width] = pixels
            pixels = wide[top : top + height, left : left + width]
        if not (self.turn or self.stretch or self.slant):
            return pixels
        degrees, slant = draw.uniform(-self.turn, self.turn), draw.uniform(-self.slant, self.slant)
        wider, higher = (1 + draw.uniform(-self.stretch, self.stretch) for _ in range(2))
        return warped(np.ascontiguousarray(pixels), degrees, (wider, higher), slant, self.outside)


def collate_images(examples: Sequence[tuple[Float[Tensor, "channel height width"], int]]) -> ImageBatch:
    """Images of one size with their classes. Raises ValueError for an empty list."""
    if not examples:
        raise ValueError("collate_images() got no examples; expected at least one")
    classes = torch.tensor([each for _, each in examples], dtype=torch.int64)
    return ImageBatch(torch.stack([pixels for pixels, _ in examples]), classes)
