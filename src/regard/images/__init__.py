"""Image files -> arrays -> tensors for a model."""

from regard.images.files import SUFFIXES, decode_image, pixels_of, read_image
from regard.images.preparation import Image, Pixels, Preparation

__all__ = [
    "SUFFIXES",
    "Image",
    "Pixels",
    "Preparation",
    "decode_image",
    "pixels_of",
    "read_image",
]
