"""Positional encodings: as a map, as curves, and their pairwise similarity (Vaswani 2017, section 3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.pictures.inches import sheet
from regard.pictures.scale import colour_bar, share
from regard.pictures.style import COLOURS, GRID, INK, MUTED, diverging, plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, LEFT, ABOVE, BELOW, RIGHT = 2.0, 0.55, 0.35, 0.45, 0.75
"""A panel's side and the margins, in inches; the right one has the colour bar."""
CURVES = 4
"""The maximum of dimensions drawn as curves."""

Encoding = Float[np.ndarray, "_position _dimension"]


def positions(encodings: Mapping[str, Encoding]) -> Figure:
    """A figure with one row per encoding: its values (dimension by position), some dimensions as curves over the
    positions, and the dot product of each pair of positions. Orange is negative, blue positive; each scale ends at the
    greatest magnitude. Raises ValueError for an empty mapping, InputError without matplotlib."""
    if not encodings:
        raise ValueError("positions() got no encoding; expected at least one")
    width, tall = 3 * (LEFT + SIDE + RIGHT), ABOVE + SIDE + BELOW
    with plotting():
        figure = sheet()
        whole = width, tall * len(encodings)
        figure.set_size_inches(whole)
        for row, (name, encoding) in enumerate(encodings.items()):
            bottom = whole[1] - tall * (row + 1) + BELOW
            panels = [
                figure.add_axes(
                    share((LEFT + column * width / 3, bottom, SIDE, SIDE), whole)
                )
                for column in range(3)
            ]
            alike = encoding @ encoding.T
            _map(figure, panels[0], encoding.T, f"{name}: encoding", "dimension")
            _curves(panels[1], encoding)
            _map(figure, panels[2], alike, "dot products", "position")
    return figure


def _map(
    figure: Figure,
    axes: Axes,
    values: Float[np.ndarray, "row column"],
    title: str,
    side: str,
) -> None:
    from matplotlib.colors import ListedColormap

    rows, columns = values.shape
    most = float(np.abs(values).max(initial=0.0)) or 1.0
    axes.imshow(
        values,
        cmap=ListedColormap(diverging() / 255),
        vmin=-most,
        vmax=most,
        aspect="auto",
        interpolation="none",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    _dress(axes, title, side)
    box, (width, _) = axes.get_position(), figure.get_size_inches()
    colour_bar(
        figure,
        (box.x1 + 0.08 / width, box.y0, 0.1 / width, box.height),
        most=most,
        least=-most,
    )


def _curves(axes: Axes, encoding: Encoding) -> None:
    """Draw evenly spaced dimensions, beginning with the first."""
    count = min(CURVES, encoding.shape[1])
    for number, dimension in enumerate(
        range(0, encoding.shape[1], -(-encoding.shape[1] // count))
    ):
        axes.plot(
            encoding[:, dimension],
            color=COLOURS[number],
            linewidth=1.4,
            label=f"dimension {dimension}",
        )
    axes.legend(
        fontsize=6.5,
        frameon=False,
        labelcolor=INK,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        handlelength=1,
    )
    axes.grid(color=GRID, linewidth=0.6)
    _dress(axes, "as curves", "")


def _dress(axes: Axes, title: str, side: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left", pad=4, parse_math=False)
    axes.set_xlabel("position", fontsize=8, color=MUTED, labelpad=2)
    axes.set_ylabel(side, fontsize=8, color=MUTED, labelpad=2)
    axes.locator_params(integer=True, nbins=5)
    axes.tick_params(labelsize=7, labelcolor=MUTED, color=MUTED, length=2)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID)
