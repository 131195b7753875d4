"""Attention weights as a heat map over a photograph (Xu 2015, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures.style import (
    GRID,
    INK,
    MUTED,
    UNIFORM_MULTIPLE,
    choose_sizes,
    heat_colors,
    is_dark,
    is_nearly_uniform,
    plotting,
    scale_end,
    to_fractions,
)
from regard.pictures.text import (
    DETAIL,
    MIN_TITLE_WIDTH,
    Word,
    draw_text,
    layout_title,
    measure,
    new_figure,
    wrap,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, SMALL, HEAD, GAP = 2.8, 1.6, 0.42, 0.14
"""The longer side of a single image and of one among many, the room for an image's
name, and the gap, in inches."""
BAR = 1.6, 0.12, 0.42
"""The sides of the colour bar, and the room for it beside one line of its legend, in
inches."""
LEGEND_LEFT = GAP + 0.12 + BAR[0] + 0.08
"""Where the legend of the colour bar begins, in inches."""
COLUMNS = 6
"""The maximum of images in a row."""
MAX_OPACITY = 0.8
"""The opacity of the heat at the end of the scale; at weight 0 it is 0."""
NO_PART = "nearly even: the model prefers no part of the image"
Pixels = UInt8[np.ndarray, "height width channel"]
Maps = Float[np.ndarray, "image row column"]


@dataclass(frozen=True)
class Panel:
    """An image below its name and a remark."""

    pixels: Pixels
    name: str = ""
    remark: str = ""


def overlay(
    photo: Pixels, weights: Float[np.ndarray, "row column"], *, title: str = ""
) -> Figure:
    """Plot a photograph, and the same under a heat map of its patches' weights.

    Weights are interpolated between the centers of patches.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    notes = (NO_PART,) if is_nearly_uniform(weights) else ()
    legend = f"{scale_end(weights):.3g}, the share of a patch"
    return _figure(
        [Panel(photo), Panel(apply_heat(photo, weights))], title, notes, SIDE, legend
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
    panels = [Panel(photo)]
    remarks = remarks or ("",) * len(words)
    for word, weights_of_word, remark in zip(words, weights, remarks, strict=True):
        remark_of_scale = f"up to {float(weights_of_word.max(initial=0.0)):.3g}"
        panels.append(
            Panel(
                apply_heat(photo, weights_of_word),
                word,
                f"{remark}, {remark_of_scale}" if remark else remark_of_scale,
            )
        )
    if len(weights) and all(map(is_nearly_uniform, weights)):
        notes = (*notes, NO_PART)
    even = f" of {float(weights[0].mean()):.3g}" if len(weights) else ""
    return _figure(
        panels,
        title,
        notes,
        SMALL,
        f"the greatest weight of an image, at least {UNIFORM_MULTIPLE} times an even share{even}",
    )


def _figure(
    panels: Sequence[Panel],
    title: str,
    notes: Sequence[str],
    side: float,
    scale_legend: str,
) -> Figure:
    """Images row by row, each below its name. Rows without names have no room for them."""
    with plotting():
        figure = new_figure()
        tall, wide = panels[0].pixels.shape[:2]
        wide, tall = side * wide / max(wide, tall), side * tall / max(wide, tall)
        rows, head = (
            -(-len(panels) // COLUMNS),
            HEAD if any(panel.name for panel in panels) else 0.0,
        )
        columns = -(-len(panels) // rows)
        width = max(columns * wide + (columns + 1) * GAP, MIN_TITLE_WIDTH)
        heading = layout_title(figure, title, width - 2 * GAP, *notes)
        legend = wrap(
            figure, scale_legend, choose_sizes(1).small, width - LEGEND_LEFT - GAP
        )
        foot = BAR[2] + DETAIL * (len(legend) - 1)
        top = foot + GAP + rows * (tall + GAP + head)
        size_inches = width, top + heading.height + GAP
        figure.set_size_inches(size_inches)
        heading.draw(figure, GAP, size_inches[1] - GAP)
        words = measure(
            figure, [panel.name for panel in panels], choose_sizes(1).title, 30
        )
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            x, y = GAP + column * (wide + GAP), top - row * (tall + GAP + head)
            _name(figure, words[place], panel.remark, (x, y))
            axes = figure.add_axes(
                to_fractions((x, y - head - tall, wide, tall), size_inches)
            )
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set(edgecolor=GRID, linewidth=0.6)
            axes.imshow(to_rgb(panel.pixels), interpolation="nearest", aspect="auto")
        _bar(figure, legend, foot, size_inches, dark=is_dark(panels[0].pixels))
    return figure


def _name(figure: Figure, word: Word, remark: str, place: tuple[float, float]) -> None:
    x, top = place
    if word.label:
        draw_text(
            figure,
            word.label,
            (x, top - 0.12),
            size=choose_sizes(1).title,
            color=INK,
            family=word.fonts,
        )
        draw_text(figure, remark, (x, top - 0.3), size=7.0, color=MUTED)


def _bar(
    figure: Figure,
    legend: Sequence[Word],
    top: float,
    size_inches: tuple[float, float],
    *,
    dark: bool,
) -> None:
    """Draw the colors of the heat map below `top`, with the lines of a legend.

    The upper half is as on white, the lower as on black: they let the photograph
    through.
    """
    axes = figure.add_axes(
        to_fractions((GAP + 0.12, top - BAR[1] - 0.1, BAR[0], BAR[1]), size_inches)
    )
    ramp = np.linspace(0.0, 1.0, 256)[None].repeat(2, 0)
    below = np.array([255, 0], np.uint8)[:, None, None].repeat(256, 1).repeat(3, 2)
    axes.imshow(blend(below, ramp, dark=dark), aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=0.6)
    middle = top - BAR[1] / 2 - 0.1
    style = {"size": choose_sizes(1).small, "color": MUTED}
    draw_text(figure, "0", (GAP, middle), **style)
    for number, word in enumerate(legend):
        draw_text(figure, word.label, (LEGEND_LEFT, middle - number * DETAIL), **style)


def to_rgb(pixels: Pixels) -> np.ndarray:
    """Return the pixels with three channels."""
    return np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels


def apply_heat(photo: Pixels, weights: Float[np.ndarray, "row column"]) -> np.ndarray:
    """Return a photograph under the heat map of patch weights."""
    return blend(
        to_rgb(photo),
        interpolate_patches(weights, *photo.shape[:2]),
        dark=is_dark(photo),
    )


def blend(
    pixels: Pixels, shares: Float[np.ndarray, "height width"], *, dark: bool = False
) -> Pixels:
    """Pixels under the colours of shares from 0 to 1, those for `dark` photographs or others; 0 has none."""
    opacity = MAX_OPACITY * shares[:, :, None]
    colours = heat_colors(dark)[np.rint(255 * shares).astype(int)]
    return np.rint((1 - opacity) * pixels + opacity * colours).astype(np.uint8)


def interpolate_patches(
    weights: Float[np.ndarray, "row column"], height: int, width: int
) -> Float[np.ndarray, "height width"]:
    """Patch weights as shares of the scale at each pixel, from 0 to 1, linear between the centres of patches."""
    result = weights / max(scale_end(weights), np.finfo(weights.dtype).tiny)
    for axis, size in enumerate((height, width)):
        middles = (np.arange(result.shape[axis]) + 0.5) * size / result.shape[axis]
        at = np.arange(size) + 0.5
        result = np.apply_along_axis(
            lambda row, at=at, middles=middles: np.interp(at, middles, row),
            axis,
            result,
        )
    return result
