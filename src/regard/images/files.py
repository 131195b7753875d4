"""Image files, read with care: of kinds that are images and nothing more, and of a size that memory holds."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.images.pillow import pillow

KINDS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
MOST_PIXELS = 1 << 26
"""Of one image; a file of a few bytes can say that it has thousands of millions."""
MODES = {1: "L", 3: "RGB"}
"""What images of so many channels are called there."""


def read_image(path: Path | str, channels: int = 3) -> UInt8[np.ndarray, "height width channel"]:
    """The image in a file, grey with 1 channel and red, green and blue with 3, upright as its camera was held.

    What is transparent stands on white, 16 bits become 8, and of a moving image it is the first.

    Raises:
        InputError: the file is missing, no image, broken, cut short or larger than `MOST_PIXELS`.
    """
    path = Path(path)
    if path.is_dir() or not path.exists():
        raise InputError(f"{path}: {'is a directory' if path.is_dir() else 'no such file'}; expected an image")
    return _decoded(path, str(path), channels)


def decode_image(
    content: bytes, channels: int = 3, place: str = "the image"
) -> UInt8[np.ndarray, "height width channel"]:
    """As `read_image`, the image whose file holds these bytes; messages call it `place`. Raises InputError."""
    return _decoded(BytesIO(content), place, channels)


def _decoded(file: Path | BytesIO, place: str, channels: int) -> np.ndarray:
    library = pillow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's own limit warns above ours, and what is broken is refused below
        try:
            with library.Image.open(file, formats=KINDS) as image:
                _check_size(place, image)
                upright = library.ImageOps.exif_transpose(image)
                found = np.asarray(_plain(library, upright).convert(MODES[channels]))
        except InputError:
            raise
        except library.Image.DecompressionBombError as error:
            raise InputError(f"{place}: has far more than {MOST_PIXELS:,} pixels; refused, make it smaller") from error
        except library.UnidentifiedImageError as error:
            known = ", ".join(KINDS)
            raise InputError(f"{place}: is no image of a kind that is read ({known}); convert it") from error
        except Exception as error:  # a decoder that meets broken bytes may raise anything
            what = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{place}: broken, truncated or unusual image ({what}); save it anew as PNG") from error
    return found[:, :, None] if found.ndim == 2 else found


def _check_size(place: str, image: Any) -> None:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise InputError(f"{place}: {width} x {height} pixels, more than {MOST_PIXELS:,}; refused, make it smaller")


def _plain(library: Any, image: Any) -> Any:
    """The image with 8 bits a channel and nothing transparent. Raises ValueError for numbers without a known range."""
    if image.mode == "F":
        raise ValueError("its pixels are floats, whose black and white are not known")
    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int64)
        if deep.min() < 0 or deep.max() > 0xFFFF:
            raise ValueError("its pixels have 32 bits, whose black and white are not known")
        return library.Image.fromarray(((deep + 128) // 257).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    clear = image.convert("RGBA")
    return library.Image.alpha_composite(library.Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
