"""A spectrogram, and below it where in time each token attends (Chorowski 2015, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.pictures.fonts import families
from regard.pictures.inches import sheet
from regard.pictures.labels import drawable
from regard.pictures.scale import colour_bar, colour_map, share
from regard.pictures.style import GRID, INK, MUTED, plotting, sizes
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SECOND, NARROWEST, WIDEST = 2.2, 4.0, 24.0
"""Inches of a second, and of the least and the greatest width."""
HIGH, ROW, LEFT, RIGHT, FOOT, TOP, GAP = 1.3, 0.17, 0.5, 0.75, 0.42, 0.1, 0.1
"""Inches of the spectrogram, of a row of weights, of the margins, and between the two."""
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
    """A figure of a sound and of the weights on its times: a row for each token, from white at 0 to dark at 1.

    shades: from 0, white, to 1, dark; low bands are at the bottom.
    times: the seconds of a frame, and of a key.

    Raises InputError without matplotlib, or if no installed font has a label's characters, and ValueError where the
    numbers of tokens and rows differ or are more than `LARGEST`."""
    if not len(tokens) == len(weights) <= LARGEST:
        raise ValueError(f"{len(tokens)} tokens for {len(weights)} rows; expected one each, at most {LARGEST}")
    seconds = max(len(shades) * times[0], weights.shape[1] * times[1])
    across = min(max(SECOND * seconds, NARROWEST), WIDEST)
    down = max(ROW * len(tokens), ROW)
    with plotting():
        figure = sheet()
        heading = titled(figure, title, across + RIGHT)
        whole = LEFT + across + RIGHT, TOP + heading.height + HIGH + GAP + down + FOOT
        figure.set_size_inches(whole)
        heading.draw(figure, LEFT, whole[1] - TOP)
        above = figure.add_axes(share((LEFT, FOOT + down + GAP, across, HIGH), whole))
        below = figure.add_axes(share((LEFT, FOOT, across, down), whole))
        _image(above, shades.T[::-1], len(shades) * times[0])
        _image(below, weights, weights.shape[1] * times[1])
        for axes in (above, below):
            axes.set_xlim(0, seconds)
        above.set(xticks=[], yticks=[])
        _labels(below, tokens)
        bar = min(max(down, 0.6), 1.6)
        colour_bar(figure, share((LEFT + across + 0.15, FOOT + down - bar, 0.12, bar), whole))
    return figure


def _image(axes: Axes, shades: np.ndarray, right: float) -> None:
    """An image from 0 to `right`, its first row at the top."""
    if shades.size:
        settings = {"cmap": colour_map(), "vmin": 0.0, "vmax": 1.0, "aspect": "auto", "interpolation": "nearest"}
        axes.imshow(shades, extent=(0.0, right, float(len(shades)), 0.0), **settings)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=sizes(1).line)


def _labels(axes: Axes, tokens: Sequence[str]) -> None:
    size = sizes(1)
    shown = [drawable(each) for each in tokens]
    axes.set_ylim(max(len(tokens), 1), 0)
    axes.set_yticks([place + 0.5 for place in range(len(shown))], shown, parse_math=False)
    axes.tick_params(axis="y", length=0, pad=4, labelsize=size.small, labelcolor=INK)
    for text, family in zip(axes.get_yticklabels(), families(shown), strict=True):
        text.set_fontfamily(family)
    axes.tick_params(axis="x", length=2, width=0.6, color=MUTED, labelsize=size.small, labelcolor=MUTED)
    axes.set_xlabel("seconds", fontsize=size.small, color=MUTED)
