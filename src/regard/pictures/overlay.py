"""Attention weights as a heat map over a photograph (Xu 2015, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures.inches import Word, measured, sheet, text
from regard.pictures.scale import EVEN, end_of, nearly_even, share
from regard.pictures.style import GRID, INK, MUTED, heat, is_dark, plotting, sizes
from regard.pictures.title import DETAIL, LEAST, titled, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDE, SMALL, HEAD, GAP = 2.8, 1.6, 0.42, 0.14
"""The longer side of a single image and of one among many, the room for an image's name, and the gap, in inches."""
BAR = 1.6, 0.12, 0.42
"""The sides of the colour bar, and the room for it beside one line of its legend, in inches."""
BESIDE = GAP + 0.12 + BAR[0] + 0.08
"""Where the legend of the colour bar begins, in inches."""
COLUMNS = 6
"""The maximum of images in a row."""
STRONGEST = 0.8
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
    """A figure of the photograph, and of the same under a heat map of the weights, interpolated between the centres of
    patches. Raises InputError without matplotlib, or if no installed font has a character of the title."""
    notes = (NO_PART,) if nearly_even(weights) else ()
    most = f"{end_of(weights):.3g}, the share of a patch"
    return _figure(
        [Panel(photo), Panel(heated(photo, weights))], title, notes, SIDE, most
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
    """A figure of a photograph, and of the same once per word under a heat map of that word's weights (Xu 2015, figure
    2), each on a scale of its own. The greatest weight is stated with the word's remark. `notes` are lines below
    the title. Raises as `overlay` does, and ValueError if the numbers of words and of weights differ."""
    panels = [Panel(photo)]
    remarks = remarks or ("",) * len(words)
    for word, each, remark in zip(words, weights, remarks, strict=True):
        most = f"up to {float(each.max(initial=0.0)):.3g}"
        panels.append(
            Panel(heated(photo, each), word, f"{remark}, {most}" if remark else most)
        )
    if len(weights) and all(map(nearly_even, weights)):
        notes = (*notes, NO_PART)
    even = f" of {float(weights[0].mean()):.3g}" if len(weights) else ""
    return _figure(
        panels,
        title,
        notes,
        SMALL,
        f"the greatest weight of an image, at least {EVEN} times an even share{even}",
    )


def _figure(
    panels: Sequence[Panel], title: str, notes: Sequence[str], side: float, most: str
) -> Figure:
    """Images row by row, each below its name. Rows without names have no room for them."""
    with plotting():
        figure = sheet()
        tall, wide = panels[0].pixels.shape[:2]
        wide, tall = side * wide / max(wide, tall), side * tall / max(wide, tall)
        rows, head = (
            -(-len(panels) // COLUMNS),
            HEAD if any(each.name for each in panels) else 0.0,
        )
        columns = -(-len(panels) // rows)
        width = max(columns * wide + (columns + 1) * GAP, LEAST)
        heading = titled(figure, title, width - 2 * GAP, *notes)
        legend = wrapped(figure, most, sizes(1).small, width - BESIDE - GAP)
        foot = BAR[2] + DETAIL * (len(legend) - 1)
        top = foot + GAP + rows * (tall + GAP + head)
        whole = width, top + heading.height + GAP
        figure.set_size_inches(whole)
        heading.draw(figure, GAP, whole[1] - GAP)
        words = measured(figure, [each.name for each in panels], sizes(1).title, 30)
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            left, above = GAP + column * (wide + GAP), top - row * (tall + GAP + head)
            _name(figure, words[place], panel.remark, (left, above))
            axes = figure.add_axes(
                share((left, above - head - tall, wide, tall), whole)
            )
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set(edgecolor=GRID, linewidth=0.6)
            axes.imshow(coloured(panel.pixels), interpolation="nearest", aspect="auto")
        _bar(figure, legend, foot, whole, dark=is_dark(panels[0].pixels))
    return figure


def _name(figure: Figure, word: Word, remark: str, place: tuple[float, float]) -> None:
    left, top = place
    if word.label:
        text(
            figure,
            word.label,
            (left, top - 0.12),
            size=sizes(1).title,
            color=INK,
            family=word.fonts,
        )
        text(figure, remark, (left, top - 0.3), size=7.0, color=MUTED)


def _bar(
    figure: Figure,
    legend: Sequence[Word],
    top: float,
    whole: tuple[float, float],
    *,
    dark: bool,
) -> None:
    """The colours of the heat map below `top`, above as on white and below as on black, which differ as they let the
    photograph through: from 0 to the weight that the lines of a legend name."""
    axes = figure.add_axes(
        share((GAP + 0.12, top - BAR[1] - 0.1, BAR[0], BAR[1]), whole)
    )
    ramp = np.linspace(0.0, 1.0, 256)[None].repeat(2, 0)
    below = np.array([255, 0], np.uint8)[:, None, None].repeat(256, 1).repeat(3, 2)
    axes.imshow(blended(below, ramp, dark=dark), aspect="auto", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=0.6)
    middle = top - BAR[1] / 2 - 0.1
    style = {"size": sizes(1).small, "color": MUTED}
    text(figure, "0", (GAP, middle), **style)
    for number, word in enumerate(legend):
        text(figure, word.label, (BESIDE, middle - number * DETAIL), **style)


def coloured(pixels: Pixels) -> np.ndarray:
    """The pixels with three channels."""
    return np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels


def heated(photo: Pixels, weights: Float[np.ndarray, "row column"]) -> np.ndarray:
    """A photograph under the heat map of patch weights."""
    return blended(
        coloured(photo), spread(weights, *photo.shape[:2]), dark=is_dark(photo)
    )


def blended(
    pixels: Pixels, shares: Float[np.ndarray, "height width"], *, dark: bool = False
) -> Pixels:
    """Pixels under the colours of shares from 0 to 1, those for `dark` photographs or others; 0 has none."""
    opacity = STRONGEST * shares[:, :, None]
    colours = heat(dark)[np.rint(255 * shares).astype(int)]
    return np.rint((1 - opacity) * pixels + opacity * colours).astype(np.uint8)


def spread(
    weights: Float[np.ndarray, "row column"], height: int, width: int
) -> Float[np.ndarray, "height width"]:
    """Patch weights as shares of the scale at each pixel, from 0 to 1, linear between the centres of patches."""
    found = weights / max(end_of(weights), np.finfo(weights.dtype).tiny)
    for axis, size in enumerate((height, width)):
        middles = (np.arange(found.shape[axis]) + 0.5) * size / found.shape[axis]
        at = np.arange(size) + 0.5
        found = np.apply_along_axis(
            lambda row, at=at, middles=middles: np.interp(at, middles, row), axis, found
        )
    return found
