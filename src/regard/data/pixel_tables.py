"""Tables that have an image in each row, a column for each of its pixels, as Kaggle's of Fashion-MNIST and digits."""

import re
from collections.abc import Mapping, Sequence
from math import isqrt

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError

PIXEL = re.compile(r"(pixel|px)[ _.]?\d+|\d+x\d+", re.IGNORECASE)
"""The names of such columns: `pixel0`, `pixel1`, ..., or `1x1`, `1x2`, ..."""
LEAST = 4
"""The least columns of this form by which a table is one of pixels."""


def pixel_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The columns of the pixels, in their order; none of another table."""
    found = tuple(name for name in names if PIXEL.fullmatch(name.strip()))
    return found if len(found) >= LEAST else ()


def pixels_in(names: Sequence[str], path: str) -> tuple[str, ...]:
    """The columns of the pixels of a table with these names, if it has some. Raises InputError for a number of them
    that is no square."""
    pixels = pixel_columns(names)
    if isqrt(len(pixels)) ** 2 != len(pixels):
        raise InputError(
            f"{path}: {len(pixels):,} columns of pixels, which is no square; expected grey square images, such as 784 "
            "columns for 28 x 28; write others as image files"
        )
    return pixels


def columns_with(
    label: str | int, names: Sequence[str], path: str
) -> Mapping[str, str | int]:
    """The column of the class and those of the pixels of a table with these names. Raises InputError for a number of
    pixels that is no square, and without a column of that name."""
    pixels = pixels_in(names, path)
    if label not in names:
        others = [repr(name) for name in names if name not in pixels]
        lacks = (
            f"{path}: no column {label!r} beside its {len(pixels):,} columns of pixels"
        )
        if not others:
            raise InputError(
                f"{lacks}, and no other one; its images have no classes, so `regard predict` reads them only"
            )
        raise InputError(
            f"{lacks}, but {', '.join(others)}; name the column of the classes with --set data.label=COLUMN"
        )
    return {"label": label} | {name: name for name in pixels}


def image_of(cells: Sequence[str]) -> UInt8[np.ndarray, "height width"]:
    """The image of a row's pixels. Raises InputError for a pixel that is no whole number from 0 to 255."""
    side = isqrt(len(cells))
    try:
        content = bytes(map(int, cells))
    except ValueError as error:
        place, cell = next(
            (place, cell) for place, cell in enumerate(cells, 1) if not _is_byte(cell)
        )
        raise InputError(
            f"pixel {place} is {cell!r}; expected a whole number from 0 to 255"
        ) from error
    return np.frombuffer(content, np.uint8).reshape(side, side)


def _is_byte(cell: str) -> bool:
    return cell.strip().isdecimal() and int(cell) < 256
