"""Augmentation of training images: flips, shifts and affine warps."""

import math
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

import numpy as np
from jaxtyping import UInt8
from pydantic import Field

from regard.images.files import pillow
from regard.images.preparation import Pixels


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
        self,
        pixels: UInt8[np.ndarray, "height width channel"],
        seed: int,
        epoch: int,
        index: int,
    ) -> UInt8[np.ndarray, "height width channel"]:
        """The augmented image, as a function of seed, epoch and index only."""
        draw = Random(
            f"{seed}/{epoch}/{index}"
        )  # a string seed is hashed with SHA-512, the same in every process
        if self.flip and draw.random() < 0.5:
            pixels = pixels[:, ::-1]
        if self.shift:
            height, width, channels = pixels.shape
            top, left = draw.randint(0, 2 * self.shift), draw.randint(0, 2 * self.shift)
            wide = np.full(
                (height + 2 * self.shift, width + 2 * self.shift, channels),
                self.outside,
                np.uint8,
            )
            wide[self.shift : self.shift + height, self.shift : self.shift + width] = (
                pixels
            )
            pixels = wide[top : top + height, left : left + width]
        if not (self.turn or self.stretch or self.slant):
            return pixels
        degrees, slant = (
            draw.uniform(-self.turn, self.turn),
            draw.uniform(-self.slant, self.slant),
        )
        wider, higher = (
            1 + draw.uniform(-self.stretch, self.stretch) for _ in range(2)
        )
        return warped(
            np.ascontiguousarray(pixels), degrees, (wider, higher), slant, self.outside
        )


def warped(
    pixels: Pixels,
    degrees: float,
    sides: tuple[float, float],
    slant: float,
    outside: int,
) -> Pixels:
    """Scale an image's width and height by `sides`, shear its columns down by `slant` pixels for each pixel to the
    right, then rotate it clockwise by `degrees`. Pixels from beyond its edges have the value `outside`, 0 to 255."""
    height, width, channels = pixels.shape
    middle = width / 2, height / 2
    back = _inverse(math.radians(degrees), sides, slant)
    rows = [
        (*row, center - row[0] * middle[0] - row[1] * middle[1])
        for row, center in zip(back, middle, strict=True)
    ]
    library = pillow()
    image: Any = library.Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    found = image.transform(
        (width, height),
        library.Image.Transform.AFFINE,
        (*rows[0], *rows[1]),
        resample=library.Image.Resampling.BILINEAR,
        fillcolor=outside if channels == 1 else (outside,) * channels,
    )
    return np.asarray(found).reshape(pixels.shape)


def _inverse(
    turn: float, sides: tuple[float, float], slant: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """diag(sides)^-1 [[1, 0], [-slant, 1]] R(-turn); NumPy takes longer over so few numbers than over an image."""
    cos, sin = math.cos(turn), math.sin(turn)
    width, height = sides
    return (cos / width, sin / width), (
        (-slant * cos - sin) / height,
        (cos - slant * sin) / height,
    )
