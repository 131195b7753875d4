"""Images turned, stretched and slanted about their middle."""

import math
from typing import Any

import numpy as np

from regard.images.pillow import pillow
from regard.images.preparation import Pixels


def warped(pixels: Pixels, degrees: float, sides: tuple[float, float], slant: float, outside: int) -> Pixels:
    """An image turned by so many `degrees`, clockwise, after its width and height became `sides` times as large and its
    columns were moved down by `slant` pixels for each pixel to the right. What comes in is `outside`, of 0 to 255."""
    turn = math.radians(degrees)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    back = np.linalg.inv(rotation @ np.array([[1.0, 0.0], [slant, 1.0]]) @ np.diag(sides))
    height, width, channels = pixels.shape
    middle = np.array([width / 2, height / 2])
    shift = middle - back @ middle
    library = pillow()
    image: Any = library.Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    found = image.transform(
        (width, height),
        library.Image.Transform.AFFINE,
        (*back[0], shift[0], *back[1], shift[1]),
        resample=library.Image.Resampling.BILINEAR,
        fillcolor=outside if channels == 1 else (outside,) * channels,
    )
    return np.asarray(found).reshape(pixels.shape)
