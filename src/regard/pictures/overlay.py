"""Attention weights as a heat map over a photograph (Xu 2015, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures.canvas import (
    BAR,
    DETAIL,
    INK,
    MARGIN,
    TITLE_TYPE,
    UNIFORM_MULTIPLE,
    Canvas,
    heat_colors,
    is_dark,
    is_nearly_uniform,
    plotting,
    scale_end,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, SMALL_SIDE, HEAD = 2.8, 1.6, 0.42
"""The longer side of one of two images and of one among many, and the room for an
image's name, in inches."""
BAR_WIDTH = 1.6
COLUMNS = 6
"""The maximum of images in a row."""
MAX_OPACITY = 0.8
"""The opacity of the heat at the end of the scale; at weight 0 it is 0."""
NO_PART = "nearly even: the model prefers no part of the image"
Pixels = UInt8[np.ndarray, "height width channel"]
Maps = Float[np.ndarray, "image row column"]


def overlay(
    photo: Pixels, weights: Float[np.ndarray, "row column"], *, title: str = ""
) -> Figure:
    """Plot a photograph, and the same under a heat map of its patches' weights.

    Weights are interpolated between the centers of patches.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    notes = [NO_PART] if is_nearly_uniform(weights) else []
    legend = f"{scale_end(weights):.3g}, the share of a patch"
    return _plot(
        photo,
        weights[None],
        ("",),
        ("",),
        title,
        notes,
        legend,
    )


def overlays(
    photo: Pixels,
    weights: Maps,
    words: Sequence[str],
    *,
    title: str = "",
    remarks: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Figure:
    """Plot a photograph, and the same once per word under a heat map (Xu 2015, figure 2).

    Args:
        photo: The photograph.
        weights: The weights of each word, each on its own scale.
        words: The words.
        title: The title; further lines are details.
        remarks: A remark on each word, which the greatest weight follows.
        notes: Lines below the title.

    Raises:
        InputError: As `overlay`.
        ValueError: The numbers of words and weights differ.
    """
    below = []
    for remark, item in zip(remarks or [""] * len(words), weights, strict=True):
        greatest = f"up to {item.max(initial=0.0):.3g}"
        below.append(f"{remark}, {greatest}" if remark else greatest)
    legend = (
        "the greatest weight of an image, "
        f"at least {UNIFORM_MULTIPLE} times an even share"
    )
    if len(weights):
        legend += f" of {weights[0].mean():.3g}"
        if all(map(is_nearly_uniform, weights)):
            notes = (*notes, NO_PART)
    return _plot(
        photo,
        weights,
        words,
        below,
        title,
        notes,
        legend,
    )


def _plot(
    photo: Pixels,
    weights: Maps,
    words: Sequence[str],
    remarks: Sequence[str],
    title: str,
    notes: Sequence[str],
    legend: str,
) -> Figure:
    """Plot images row by row, each below its name."""
    images = [photo, *(apply_heat(photo, item) for item in weights)]
    head = HEAD if any(words) else 0.0
    scale = (SMALL_SIDE if head else SIDE) / max(photo.shape[:2])
    tall, wide = scale * photo.shape[0], scale * photo.shape[1]
    row_height = head + tall + MARGIN
    column_width = wide + MARGIN
    rows = -(-len(images) // COLUMNS)
    columns = -(-len(images) // rows)
    with plotting():
        canvas = Canvas()
        top = canvas.add_title(title, columns * column_width - MARGIN, *notes)
        names = canvas.measure(["", *words], TITLE_TYPE, 30)
        captions = zip(
            images,
            names,
            ["", *remarks],
            strict=True,
        )
        for index, (pixels, name, remark) in enumerate(captions):
            row, column = divmod(index, columns)
            x = MARGIN + column * column_width
            y = top + row * row_height
            canvas.text(
                name,
                x,
                y + 0.12,
                size=TITLE_TYPE,
                color=INK,
            )
            if name.label:
                canvas.text(
                    remark,
                    x,
                    y + 0.3,
                    size=7.0,
                )
            canvas.add_image((x, y + head, wide, tall), pixels)
        y = top + rows * row_height

        # the upper half is as on white, the lower as on black
        below = np.full((2, 256, 3), [[[255]], [[0]]], np.uint8)
        shares = np.tile(np.linspace(0, 1, 256), (2, 1))
        bar_edge = MARGIN + 0.12
        bar = (bar_edge, y, BAR_WIDTH, BAR)
        canvas.add_image(bar, blend(below, shares, is_dark(photo)))
        canvas.text("0", MARGIN, y + BAR / 2)
        edge = bar_edge + BAR_WIDTH + 0.08
        room = canvas.width - edge - MARGIN
        y += (BAR - DETAIL) / 2
        return canvas.finish(
            canvas.add_lines(
                legend,
                edge,
                y,
                room,
            )
        )


def apply_heat(
    photo: Pixels, weights: Float[np.ndarray, "row column"]
) -> UInt8[np.ndarray, "height width 3"]:
    """Return a photograph under the heat map of patch weights."""
    return blend(photo, interpolate_patches(weights, *photo.shape[:2]), is_dark(photo))


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
    weights: Float[np.ndarray, "row column"], height: int, width: int
) -> Float[np.ndarray, "height width"]:
    """Return the weight at each pixel as a share of the scale.

    It is linear between the centers of patches.
    """
    result = weights / max(scale_end(weights), np.finfo(weights.dtype).tiny)
    for size in (height, width):
        centers = (np.arange(len(result)) + 0.5) * size / len(result)
        pixels = np.arange(size) + 0.5
        result = np.stack([np.interp(pixels, centers, line) for line in result.T])
    return result
