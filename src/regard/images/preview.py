"""A reduced copy of an image, for pages."""

from io import BytesIO

import numpy as np

from regard.images.files import decode_image, pillow, read_image
from regard.images.preparation import Image

SIDE, QUALITY = 256, 90
"""The most pixels of a side; the quality of a JPEG file, in per cent."""


def preview(image: Image) -> bytes:
    """The content of an image file of at most `SIDE` x `SIDE` pixels with the image's proportions: PNG for a grey one,
    else JPEG. Raises InputError for an image that cannot be read, or without Pillow."""
    if isinstance(image, np.ndarray):
        pixels = image
    else:
        pixels = decode_image(image) if isinstance(image, bytes) else read_image(image)
    if pixels.ndim == 3 and (pixels == pixels[:, :, :1]).all():
        pixels = pixels[:, :, 0]
    reduced, content = pillow().Image.fromarray(np.ascontiguousarray(pixels)), BytesIO()
    reduced.thumbnail((SIDE, SIDE))
    reduced.save(
        content,
        **(
            {"format": "PNG"}
            if pixels.ndim == 2
            else {"format": "JPEG", "quality": QUALITY}
        ),
    )
    return content.getvalue()
