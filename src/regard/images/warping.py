"""Affine warps of images about their middle: rotation, scale and shear."""

import math
from typing import Any

import numpy as np

from regard.images.files import pillow
from regard.images.preparation import Pixels


def warped(pixels: Pixels, degrees: float, sides: tuple[float, float], slant: float, outside: int) -> Pixels:
    """Scale an image's width and height by `sides`, shear its columns down by `slant` pixels for each pixel to the
    right, then rotate it clockwise by `degrees`. Pixels from beyond its edges have the value `outside`, 0 to 255."""
    height, width, channels = pixels.shape
    middle = width / 2, height / 2
    back = _inverse(math.radians(degrees), sides, slant)
    rows = [(*row, center - row[0] * middle[0] - row[1] * middle[1]) for row, center in zip(back, middle, strict=True)]
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


def _inverse(turn: float, sides: tuple[float, float], slant: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """diag(sides)^-1 [[1, 0], [-slant, 1]] R(-turn); NumPy takes longer over so few numbers than over an image."""
    cos, sin = math.cos(turn), math.sin(turn)
    width, height = sides
    return (cos / width, sin / width), ((-slant * cos - sin) / height, (cos - slant * sin) / height)
