"""Read image files safely: known formats only, and sizes that fit in memory."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.extras import how_to_install

KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
)
MOST_PIXELS = 1 << 26
"""The maximal number of pixels of an image; a file of a few bytes can claim thousands of millions."""
MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for a number of channels."""


def pillow() -> Any:
    """The library Pillow. Raises InputError with the command to install it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise InputError(
            f"images are read and resized by Pillow, which is not installed: {how_to_install('pillow')}"
        ) from error
    return PIL


def read_image(
    path: Path | str, channels: int = 3
) -> UInt8[np.ndarray, "height width channel"]:
    """The image in a file, grey with 1 channel and red, green and blue with 3, rotated as its
    EXIF orientation says.

    Transparent pixels become white, 16 bits become 8, and an animation gives its first frame.

    Raises:
        InputError: the file is missing, no image, broken, cut short or larger than `MOST_PIXELS`.
    """
    path = Path(path)
    if not path.is_file():
        what = (
            "is a directory"
            if path.is_dir()
            else "is no regular file"
            if path.exists()
            else "no such file"
        )
        raise InputError(f"{path}: {what}; expected an image")
    return _decoded(path, str(path), channels)


def decode_image(
    content: bytes, channels: int = 3, place: str = "the image"
) -> UInt8[np.ndarray, "height width channel"]:
    """`read_image` for the bytes of a file; messages call it `place`. Raises InputError."""
    return _decoded(BytesIO(content), place, channels)


def pixels_of(content: bytes, place: str = "the image") -> int:
    """The number of pixels that the header of an image file claims, without decoding it; 0 for bytes that are no image.
    Raises InputError for a broken header, or without Pillow."""
    library = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with library.Image.open(BytesIO(content), formats=KINDS) as image:
                return image.width * image.height
        except library.Image.DecompressionBombError:
            return MOST_PIXELS + 1
        except library.UnidentifiedImageError:
            return 0
        except Exception as error:  # as in `_decoded`
            raise InputError(_broken(place, error)) from error


def _decoded(file: Path | BytesIO, place: str, channels: int) -> np.ndarray:
    library = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Pillow warns at a limit of its own; broken files are refused below
        try:
            with library.Image.open(file, formats=KINDS) as image:
                _check_size(place, image)
                upright = library.ImageOps.exif_transpose(image)
                found = np.asarray(_plain(library, upright).convert(MODES[channels]))
        except InputError:
            raise
        except library.Image.DecompressionBombError as error:
            raise InputError(
                f"{place}: has far more than {MOST_PIXELS:,} pixels; refused, make it smaller"
            ) from error
        except library.UnidentifiedImageError as error:
            known = ", ".join(KINDS)
            raise InputError(
                f"{place}: is no image of a kind that is read ({known}); convert it"
            ) from error
        except (
            Exception
        ) as error:  # a decoder that meets broken bytes may raise anything
            raise InputError(_broken(place, error)) from error
    return found[:, :, None] if found.ndim == 2 else found


def _broken(place: str, error: Exception) -> str:
    what = " ".join(str(error).split()) or type(error).__name__
    return f"{place}: broken, truncated or unusual image ({what}); save it anew as PNG"


def _check_size(place: str, image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(
            f"{place}: {width} x {height} pixels, more than {MOST_PIXELS:,}; refused, make it smaller"
        )


def _plain(library: Any, image: Any) -> Any:
    """The image with 8 bits a channel and without transparency. Raises ValueError for pixels of unknown range."""
    if image.mode == "F":
        raise ValueError("its pixels are floats, whose black and white are not known")
    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int64)
        if deep.min() < 0 or deep.max() > 0xFFFF:
            raise ValueError(
                "its pixels have 32 bits, whose black and white are not known"
            )
        return library.Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    clear = image.convert("RGBA")
    return library.Image.alpha_composite(
        library.Image.new("RGBA", clear.size, "white"), clear
    ).convert("RGB")
