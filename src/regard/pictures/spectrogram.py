"""A spectrogram, and below it where in time each token attends (Chorowski 2015, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.pictures.inches import Word, measured, sheet
from regard.pictures.scale import colour_bar, colour_map, rounded_end, share
from regard.pictures.style import GRID, INK, MUTED, plotting, sizes
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SECOND, NARROWEST, WIDEST = 2.2, 4.0, 24.0
"""Inches of a second, and of the least and the greatest width."""
HIGH, ROW, NAME, LEFT, RIGHT, FOOT, TOP, GAP = 1.3, 0.17, 0.2, 0.5, 0.75, 0.42, 0.1, 0.1
"""Inches of the spectrogram, of a row of weights, of the name of an axis, of the margins (the left one grows with the
labels), and between the two."""
NAMED = 0.6
"""Inches of the rows of weights from which on their axis has a name."""
BAR = 0.6, 1.6
"""Inches of the shortest and of the longest colour bar."""
LARGEST = 400
"""The maximum of tokens."""


def spectrogram(
    shades: Float[np.ndarray, "frame band"],
    weights: Float[np.ndarray, "token key"],
    tokens: Sequence[str],
    *,
    times: tuple[float, float],
    title: str = "",
) -> Figure:
    """A figure of a sound and of the weights on its times: a row for each token, white at 0.

    shades: from 0, white, to 1, dark, low bands at the bottom; times: the seconds of a frame, and of a key.

    Raises InputError without matplotlib, or if no installed font has a label's characters, and ValueError where the
    numbers of tokens and rows differ or are more than `LARGEST`."""
    if not len(tokens) == len(weights) <= LARGEST:
        raise ValueError(
            f"{len(tokens)} tokens for {len(weights)} rows; expected one each, at most {LARGEST}"
        )
    seconds = max(len(shades) * times[0], weights.shape[1] * times[1])
    across, down = (
        min(max(SECOND * seconds, NARROWEST), WIDEST),
        max(ROW * len(tokens), ROW),
    )
    with plotting():
        figure = sheet()
        words = measured(figure, tokens, sizes(1).small)
        left = max(LEFT, NAME + 0.12 + max((word.width for word in words), default=0.0))
        heading = titled(figure, title, across + RIGHT)
        whole = left + across + RIGHT, TOP + heading.height + HIGH + GAP + down + FOOT
        figure.set_size_inches(whole)
        heading.draw(figure, left, whole[1] - TOP)
        boxes = (left, FOOT + down + GAP, across, HIGH), (left, FOOT, across, down)
        above, below = (figure.add_axes(share(box, whole)) for box in boxes)
        _image(above, shades.T[::-1], len(shades) * times[0], seconds)
        _image(
            below, weights, weights.shape[1] * times[1], seconds, rounded_end(weights)
        )
        above.set(xticks=[], yticks=[])
        _labels(below, words)
        _name(figure, "frequency →", (left - 0.1, FOOT + down + GAP))
        if down >= NAMED:
            _name(figure, "← tokens", (NAME / 2, FOOT))
        bar = min(max(down, BAR[0]), BAR[1])
        beside = left + across + 0.15, FOOT + max(down - bar, 0.0), 0.12, bar
        colour_bar(figure, share(beside, whole), most=rounded_end(weights))
    return figure


def _name(figure: Figure, name: str, place: tuple[float, float]) -> None:
    """The name of a vertical axis, upwards from `place`."""
    turned = {
        "rotation": 90,
        "ha": "center",
        "va": "bottom",
        "transform": figure.dpi_scale_trans,
    }
    figure.text(*place, name, size=sizes(1).small, color=MUTED, **turned)


def _image(
    axes: Axes, shades: np.ndarray, right: float, seconds: float, most: float = 1.0
) -> None:
    """An image from 0 to `right` of so many seconds, its first row at the top, dark at `most`."""
    if shades.size:
        settings = {
            "cmap": colour_map(),
            "vmin": 0.0,
            "vmax": most,
            "aspect": "auto",
            "interpolation": "nearest",
        }
        axes.imshow(shades, extent=(0.0, right, float(len(shades)), 0.0), **settings)
    axes.set_xlim(0, seconds)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=sizes(1).line)


def _labels(axes: Axes, words: Sequence[Word]) -> None:
    size = sizes(1)
    axes.set_ylim(max(len(words), 1), 0)
    axes.set_yticks(
        [place + 0.5 for place in range(len(words))],
        [word.label for word in words],
        parse_math=False,
    )
    axes.tick_params(axis="y", length=0, pad=4, labelsize=size.small, labelcolor=INK)
    for text, word in zip(axes.get_yticklabels(), words, strict=True):
        text.set_fontfamily(word.fonts)
    axes.tick_params(
        axis="x",
        length=2,
        width=0.6,
        color=MUTED,
        labelsize=size.small,
        labelcolor=MUTED,
    )
    axes.set_xlabel("seconds →", fontsize=size.small, color=MUTED)
