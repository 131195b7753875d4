"""The sizes and colours of image files, from their headers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from regard.images.files import KINDS, decode_image, pillow, read_image
from regard.images.preparation import Image

DECODED = 20
"""Images that are decoded to find a colour: a grey image may be saved as red, green and blue."""
TINT = 8
"""The difference of two channels from which on a pixel has a colour."""


@dataclass(frozen=True)
class Survey:
    """The least and the largest height and width of some images, and whether any of them has colours."""

    least: tuple[int, int]
    largest: tuple[int, int]
    coloured: bool

    @property
    def oblong(self) -> bool:
        """Whether the least or the largest sides differ."""
        return self.least[0] != self.least[1] or self.largest[0] != self.largest[1]

    def __str__(self) -> str:
        sizes = dict.fromkeys(
            f"{height} x {width}" for height, width in (self.least, self.largest)
        )
        return f"{' to '.join(sizes)}, {'colour' if self.coloured else 'grey'}"


def survey(images: Sequence[Image]) -> Survey:
    """Sizes and colours of at least one image. Raises InputError for a file that cannot be read."""
    sizes = [_size(each) for each in images]
    step = max(1, len(images) // DECODED)
    heights, widths = zip(*sizes, strict=True)
    return Survey(
        (min(heights), min(widths)),
        (max(heights), max(widths)),
        any(map(_coloured, images[::step])),
    )


def _size(image: Image) -> tuple[int, int]:
    if isinstance(image, np.ndarray):
        return image.shape[0], image.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pillow().Image.open(
            BytesIO(image) if isinstance(image, bytes) else image, formats=KINDS
        ) as opened:
            return opened.height, opened.width


def _coloured(image: Image) -> bool:
    if isinstance(image, bytes):
        pixels = decode_image(image)
    else:
        pixels = image if isinstance(image, np.ndarray) else read_image(image)
    if pixels.ndim == 2 or pixels.shape[2] == 1:
        return False
    channels = pixels[:, :, :3].astype(np.int16)
    return bool((channels.max(2) - channels.min(2)).max() > TINT)
