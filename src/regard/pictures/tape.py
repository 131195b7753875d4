"""The inputs, outputs, writes and reads of a machine with a tape, step by step (Graves 2014, figure 6)."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.maps.tape_use import TapeUse
from regard.pictures.inches import sheet, text
from regard.pictures.style import GRID, INK, MUTED, palette, plotting
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT, RIGHT, ABOVE, BELOW = 0.55, 0.15, 0.3, 0.4
"""Margins of a panel, in inches."""
FOOT = 0.2
"""The height of the legend below all panels, in inches."""
WIDEST, TALLEST, LARGEST_CELL = 6.0, 3.6, 0.2
"""The maximum width and height of a panel and the maximum side of a cell, in inches."""

Panel = tuple[str, str, Float[np.ndarray, "line column"]]
"""A panel: its name, the meaning of its rows, and its values."""


def tape(use: TapeUse, *, title: str = "") -> Figure:
    """A figure of panels: inputs beside outputs and, below them for each head, its writes beside its reads, from white
    at 0 to dark at 1, on the used rows of the tape. Outputs without a target are grey. Raises InputError without
    matplotlib, or if no installed font has a character of the title."""
    wrote = heads("writes to the tape", use.writing, use.rows)
    read = heads("reads from the tape", use.reading, use.rows)
    pairs = list(
        zip_longest(
            [("inputs", "bit", use.inputs.T), *wrote],
            [("outputs", "bit", use.outputs.T), *read],
        )
    )
    with plotting():
        figure, steps = sheet(), len(use.inputs)
        cell = min(LARGEST_CELL, WIDEST / max(steps, 1))
        tall = [
            ABOVE
            + BELOW
            + max(_height(panel, cell) for panel in pair if panel is not None)
            for pair in pairs
        ]
        width = 2 * (LEFT + cell * steps + RIGHT)
        heading = titled(figure, title, width - 2 * RIGHT)
        head = heading.height + (RIGHT if title else 0.0)
        height = head + sum(tall) + FOOT
        figure.set_size_inches(width, height)
        heading.draw(figure, RIGHT, height - RIGHT)
        key = "white 0, dark 1" + (
            ", grey: no target" if np.isnan(use.outputs).any() else ""
        )
        text(figure, key, (RIGHT, FOOT / 2), size=7, color=MUTED)
        top = height - head
        for pair, size in zip(pairs, tall, strict=True):
            for left, panel in zip((LEFT, width / 2 + LEFT), pair, strict=True):
                if panel is not None:
                    side = _height(panel, cell)
                    place = (
                        left / width,
                        (top - ABOVE - side) / height,
                        cell * steps / width,
                        side / height,
                    )
                    _draw(figure.add_axes(place), panel)
            top -= size
    return figure


def _height(panel: Panel, cell: float) -> float:
    """The height of a panel in inches; the cells of one with many rows are low."""
    return min(TALLEST, cell * len(panel[2]))


def heads(
    name: str, weights: Float[np.ndarray, "head step row"], rows: int
) -> list[Panel]:
    """One panel per head."""
    several = len(weights) > 1
    return [
        (f"{name} (head {number})" if several else name, "row", each.T[:rows])
        for number, each in enumerate(weights, 1)
    ]


def _draw(axes: Axes, panel: Panel) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    name, side, values = panel
    rows, steps = values.shape
    axes.imshow(
        values,
        cmap=ListedColormap(palette() / 255).with_extremes(bad=GRID),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, steps - 0.5, rows - 0.5, -0.5),
    )
    axes.set_title(name, fontsize=9, color=INK, loc="left", pad=3)
    axes.set_ylabel(side, fontsize=8, color=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(min(6, max(rows, 1)), integer=True))
    axes.tick_params(labelsize=7, labelcolor=MUTED, color=MUTED, length=2)
    axes.set_xlabel("step", fontsize=8, color=MUTED, labelpad=2)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID)
