"""Pillow, where it is installed."""

from typing import Any

from regard.errors import InputError


def pillow() -> Any:
    """The library. Raises InputError that says how to install it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise InputError(
            "images are read and resized by Pillow, which is not installed: pip install 'regard[images]'"
        ) from error
    return PIL
