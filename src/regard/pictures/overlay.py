"""Images lit by their attention weights (Xu 2015, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures import inches
from regard.pictures.fonts import families
from regard.pictures.labels import drawable
from regard.pictures.style import MUTED, PAPER, plotting, sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, SMALL, HEAD, GAP, FOOT = 2.8, 1.5, 0.4, 0.12, 0.2
"""The side of a single image and of one among many, the title, the gap between images and the legend, in inches."""
KEY = "darkest: 0, brightest: its greatest weight"
COLUMNS = 6
"""The maximum of images in a row."""
DARKEST = 0.15
"""The brightness at weight 0."""
Pixels = UInt8[np.ndarray, "height width channel"]


def overlay(pixels: Pixels, weights: Float[np.ndarray, "row column"], *, title: str = "") -> Figure:
    """A figure of the image, and of the image lit by the weights. The brightness is 1 at the greatest weight,
    interpolated between the centres of patches. Raises InputError without matplotlib, or if no installed font has a
    character of the title."""
    return _figure([pixels, lit(pixels, weights)], [title, ""], SIDE, 2)


def overlays(pixels: Pixels, weights: Float[np.ndarray, "word row column"], words: Sequence[str]) -> Figure:
    """A figure of an image, and of the same image once per word, lit by that word's weights (Xu 2015, figure 2). The
    brightness is 1 at each word's greatest weight. Raises as `overlay` does, and ValueError if the numbers of words and
    of weights differ."""
    shown = [pixels, *(lit(pixels, each) for each in weights)]
    return _figure(shown, ["", *(word for word, _ in zip(words, weights, strict=True))], SMALL, COLUMNS)


def _figure(images: Sequence[Pixels], titles: Sequence[str], side: float, columns: int) -> Figure:
    """Images row by row, each below its title. Rows without titles have no room for them."""
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        columns = min(columns, len(images))
        rows, head = -(-len(images) // columns), HEAD if any(titles) else 0.0
        width, height = columns * side + (columns + 1) * GAP, rows * (side + GAP + head) + GAP + FOOT
        figure = Figure(figsize=(width, height), facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        inches.text(figure, KEY, (GAP, GAP / 2 + FOOT / 2), size=sizes(1).small, color=MUTED)
        for place, (image, title) in enumerate(zip(images, titles, strict=True)):
            row, column = divmod(place, columns)
            left, top = GAP + column * (side + GAP), height - GAP - row * (side + GAP + head)
            axes = figure.add_axes((left / width, (top - head - side) / height, side / width, side / height))
            axes.set_axis_off()
            axes.imshow(np.repeat(image, 3, 2) if image.shape[2] == 1 else image, interpolation="nearest")
            if title:
                text, size = drawable(title, longest=60), sizes(1).title
                family = families([text])[0]
                foot = (top - head + GAP / 2) / height
                figure.text(
                    left / width, foot, text, ha="left", va="bottom", size=size, family=family, parse_math=False
                )
    return figure


def lit(pixels: Pixels, weights: Float[np.ndarray, "row column"]) -> Pixels:
    """An image lit by weights."""
    shade = light(weights, pixels.shape[0], pixels.shape[1])
    return (pixels * shade[:, :, None]).round().astype(np.uint8)


def light(weights: Float[np.ndarray, "row column"], height: int, width: int) -> Float[np.ndarray, "height width"]:
    """Patch weights as the brightness of each pixel, from `DARKEST` to 1, linear between the centres of patches."""
    found = weights / max(weights.max(), np.finfo(weights.dtype).tiny)
    for axis, size in enumerate((height, width)):
        middles = (np.arange(found.shape[axis]) + 0.5) * size / found.shape[axis]
        at = np.arange(size) + 0.5
        found = np.apply_along_axis(lambda row, at=at, middles=middles: np.interp(at, middles, row), axis, found)
    return DARKEST + (1 - DARKEST) * found
