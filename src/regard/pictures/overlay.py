"""An image, and beside it the same image with what was looked at lit (Xu 2015, figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures.fonts import families
from regard.pictures.labels import drawable
from regard.pictures.style import PAPER, plotting, sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, HEAD, GAP = 2.8, 0.4, 0.12
"""Of one image, the title above and the space between, in inches."""
DARKEST = 0.15
"""What is left of the light where the weight is 0."""


def overlay(
    pixels: UInt8[np.ndarray, "height width channel"],
    weights: Float[np.ndarray, "row column"],
    *,
    title: str = "",
) -> Figure:
    """A figure of both. The light is full at the largest weight, and even between the middles of the patches. Raises
    InputError without matplotlib, or where no installed font has a character of the title."""
    lit = (pixels * light(weights, pixels.shape[0], pixels.shape[1])[:, :, None]).round().astype(np.uint8)
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        width, height = 2 * SIDE + 3 * GAP, SIDE + 2 * GAP + (HEAD if title else 0.0)
        figure = Figure(figsize=(width, height), facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        for place, shown in enumerate((pixels, lit)):
            left = GAP + place * (SIDE + GAP)
            axes = figure.add_axes((left / width, GAP / height, SIDE / width, SIDE / height))
            axes.set_axis_off()
            axes.imshow(np.repeat(shown, 3, 2) if shown.shape[2] == 1 else shown, interpolation="nearest")
        if title:
            text, size = drawable(title, longest=60), sizes(1).title
            family, top = families([text])[0], 1 - GAP / height
            figure.text(GAP / width, top, text, ha="left", va="top", size=size, family=family, parse_math=False)
    return figure


def light(weights: Float[np.ndarray, "row column"], height: int, width: int) -> Float[np.ndarray, "height width"]:
    """Weights of patches as the light of each pixel, from `DARKEST` to 1, linear between the middles of patches."""
    found = weights / max(weights.max(), np.finfo(weights.dtype).tiny)
    for axis, size in enumerate((height, width)):
        middles = (np.arange(found.shape[axis]) + 0.5) * size / found.shape[axis]
        at = np.arange(size) + 0.5
        found = np.apply_along_axis(lambda row, at=at, middles=middles: np.interp(at, middles, row), axis, found)
    return DARKEST + (1 - DARKEST) * found
