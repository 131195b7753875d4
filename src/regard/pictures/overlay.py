"""Attention weights as a heat map over a photograph (Xu 2015, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures.canvas import (
    INK,
    TITLE_TYPE,
    UNIFORM_MULTIPLE,
    grid_figure,
    heat_colors,
    is_dark,
    is_nearly_uniform,
    plotting,
    scale_end,
    show_image,
)
from regard.pictures.text import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, SMALL_SIDE = 2.8, 1.6
"""The longer side of one of two images and of one among many, in inches."""
COLUMNS = 6
"""The maximum of images in a row."""
MAX_OPACITY = 0.8
"""The opacity of the heat at the end of the scale; at weight 0 it is 0."""
NO_PART = "nearly even: the model prefers no part of the image"
Pixels = UInt8[np.ndarray, "height width channel"]
Maps = Float[np.ndarray, "image row column"]


def overlay(
    photo: Pixels,
    weights: Float[np.ndarray, "row column"],
    *,
    title: str = "",
    contrast: bool = False,
) -> Figure:
    """Plot a photograph, and the same under a heat map of its patches' weights.

    Weights are interpolated between the centers of patches. `contrast` is as of
    `overlays`.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    return overlays(photo, weights[None], [""], title=title, contrast=contrast)


def overlays(
    photo: Pixels,
    weights: Maps,
    words: Sequence[str],
    *,
    title: str = "",
    remarks: Sequence[str] = (),
    notes: Sequence[str] = (),
    contrast: bool = False,
) -> Figure:
    """Plot a photograph, and the same once per word under a heat map (Xu 2015, figure 2).

    Args:
        photo: The photograph.
        weights: The weights of each word, each on its own scale.
        title: The title; further lines are details.
        remarks: A remark on each word, which the greatest weight follows.
        notes: Lines below the title.
        contrast: Color each map from its least to its greatest weight, which shows
            where a nearly even map has more.

    Raises:
        InputError: As `overlay`.
        ValueError: The numbers of words and weights differ.
    """
    images = [("", "", photo)]
    remarks = remarks or [""] * len(words)
    for word, remark, item in zip(words, remarks, weights, strict=True):
        greatest = item.max(initial=0.0)
        least, end, extent = 0.0, scale_end(item), f"up to {greatest:.3g}"
        if contrast:
            least = item.min()
            end = greatest - least
            extent = f"{least:.3g} to {greatest:.3g}"
        below = ", ".join(filter(None, (remark, extent)))
        pixels = apply_heat(photo, item - least, end)
        images.append((shorten(word, longest=30), below, pixels))
    if len(weights) and all(map(is_nearly_uniform, weights)):
        notes = (*notes, NO_PART)
    rows = -(-len(images) // COLUMNS)
    columns = -(-len(images) // rows)
    side = SMALL_SIDE if any(words) else SIDE
    tall, wide = (side * size / max(photo.shape[:2]) for size in photo.shape[:2])
    with plotting(title, *words, *remarks, *notes):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap

        size = columns * (wide + 0.1) + 0.2, rows * (tall + 0.45) + 0.6
        figure, grid = grid_figure(title, rows, columns, size, *notes)
        for axes, image in zip_longest(grid.flat, images):
            if image is None:
                axes.remove()
                continue
            name, below, pixels = image
            show_image(axes, pixels)
            axes.set_title(name, size=TITLE_TYPE, color=INK)
            axes.set_xlabel(below, size=7)
        shares = np.linspace(0, 1, 256)[None]
        paper = np.full((1, 256, 3), 0 if is_dark(photo) else 255, np.uint8)
        colors = ListedColormap(blend(paper, shares, is_dark(photo))[0] / 255)
        place: Any = {"location": "bottom", "shrink": 0.35, "anchor": (0.0, 1.0)}
        bar = figure.colorbar(ScalarMappable(cmap=colors), ax=figure.axes, **place)
        bar.set_ticks([0, 1], labels=["0", "1"])
        shade = (
            "share of an image's greatest weight, or of "
            f"{UNIFORM_MULTIPLE} times an even one if that is more"
        )
        if contrast:
            shade = "from the least weight of an image, 0, to its greatest, 1"
        bar.set_label(shade, loc="left")
    return figure


def apply_heat(
    photo: Pixels, weights: Float[np.ndarray, "row column"], end: float
) -> UInt8[np.ndarray, "height width 3"]:
    """Return a photograph under the heat map of patch weights on a scale up to `end`."""
    height, width = photo.shape[:2]
    shares = interpolate_patches(weights, height, width, end)
    return blend(photo, shares, is_dark(photo))


def blend(
    pixels: Pixels, shares: Float[np.ndarray, "height width"], dark: bool
) -> UInt8[np.ndarray, "height width 3"]:
    """Return pixels under the colors of shares from 0, which has none, to 1.

    The colors are those for `dark` photographs or for light ones.
    """
    opacity = MAX_OPACITY * shares[:, :, None]
    shades = np.rint(255 * shares).astype(int)
    blended = (1 - opacity) * pixels + opacity * heat_colors(dark)[shades]
    return np.rint(blended).astype(np.uint8)


def interpolate_patches(
    weights: Float[np.ndarray, "row column"], height: int, width: int, end: float
) -> Float[np.ndarray, "height width"]:
    """Return the weight at each pixel as a share of a scale up to `end`.

    It is linear between the centers of patches.
    """
    result = weights / max(end, np.finfo(weights.dtype).tiny)
    for size in (height, width):
        centers = (np.arange(len(result)) + 0.5) * size / len(result)
        pixels = np.arange(size) + 0.5
        result = np.stack([np.interp(pixels, centers, line) for line in result.T])
    return result
