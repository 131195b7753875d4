"""Many maps of one text as small matrices on one scale: all layers and heads, or several kinds of map side by side (Vig
2019, 1906.05714, the model view)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.pictures.heatmap import VECTOR_CELLS
from regard.pictures.inches import Word, measured, sheet, text
from regard.pictures.labels import meanings, stacked, standing
from regard.pictures.scale import colour_bar, colour_map, round_up, share
from regard.pictures.style import GRID, INK, MUTED, plotting, sizes
from regard.pictures.title import LEAST, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARGIN, LINE, BETWEEN, BAR, WIDTH = 0.15, 0.18, 0.12, 0.6, 7.0
"""The margin, the height of a text line, the gap between matrices, the width of the colour bar with its gap, and the
width of all matrices, in inches."""
SMALLEST, LARGEST = 0.75, 0.3
"""The minimum side of a matrix and the maximum side of a cell, in inches."""
LABELLED = 0.115
"""The minimum side of a cell with a label of its own, in inches."""
NAME = 7.0
"""The type size of the matrices' names, in points."""
AXES = "each matrix: down the targets (queries), across the sources (keys)"
WIDEST = 14.0
"""The width up to which all matrices grow so that every label fits, in inches."""
COLUMNS = 16
"""The maximum of matrices in a row."""
MOST = 4_000_000
"""The maximum of cells in all matrices together."""


@dataclass(frozen=True)
class Plan:
    """Lengths in inches: the side of a cell, the room for labels at the left and above, and the distance between
    matrices."""

    cell: float
    source: list[Word]
    target: list[Word]
    across: float
    down: float

    @property
    def left(self) -> float:
        return max((word.width + 0.08 for word in self.target), default=0.0)

    @property
    def above(self) -> float:
        line = 1.25 * _type(self.cell) / 72
        tall = (
            len(word.label) * line if stacked(word.label) else word.width
            for word in self.source
        )
        return max(tall, default=-0.08) + 0.08


def multiples(
    weights: Float[np.ndarray, "map target source"],
    names: Sequence[str],
    layers: Sequence[int],
    labels: tuple[Sequence[str], Sequence[str]] = ((), ()),
    *,
    most: float | None = None,
    title: str = "",
) -> Figure:
    """A figure with one matrix per map (targets down, sources across) and one row per layer. All matrices have one
    scale, from white at 0 to dark at `most`; by default, the greatest weight rounded up.

    `names` has one per map, `layers` the number of maps of each layer. `labels` of sources and targets are drawn if
    there is room. Raises InputError for too many cells, without matplotlib, or if a font lacks a character."""
    _check(weights)
    most = round_up(weights) if most is None else most
    rows = _rows(layers)
    with plotting():
        figure = sheet()
        named = measured(figure, names, NAME)
        plan = _plan(figure, weights.shape[1:], labels, max(map(len, rows)), named)
        width = max(
            MARGIN + plan.left + max(map(len, rows)) * plan.across + BAR,
            LEAST if title else 0.0,
        )
        notes = (AXES, meanings(*labels)) if plan.source else ()
        heading = titled(figure, title, width - 2 * MARGIN, *notes)
        top = plan.above + len(rows) * plan.down
        figure.set_size_inches(width, height := MARGIN + top + heading.height)
        heading.draw(figure, MARGIN, height - MARGIN / 2)
        for down, row in enumerate(rows):
            high = top - down * plan.down - (plan.above if down else 0.0)
            for across, number in enumerate(row):
                word, left = named[number], MARGIN + plan.left + across * plan.across
                text(
                    figure,
                    word.label,
                    (left, high - LINE / 2),
                    size=NAME,
                    color=MUTED,
                    family=word.fonts,
                )
                axes = _axes(
                    figure,
                    plan,
                    weights.shape[1:],
                    (left, high - LINE - (0.0 if down else plan.above)),
                )
                _draw(
                    axes, weights[number], most, rasterized=weights.size > VECTOR_CELLS
                )
                _label(axes, plan, left=across == 0, above=down == 0)
        tall = min(2.0, plan.down - LINE - BETWEEN)
        box = width - BAR + 0.05, top - LINE - plan.above - tall, sizes(1).bar, tall
        colour_bar(
            figure,
            share(box, (width, height)),
            most=most,
            above=bool((weights > most + 1e-6).any()),
        )
    return figure


def _check(weights: Float[np.ndarray, "map target source"]) -> None:
    if weights.size > MOST:
        raise InputError(
            f"{len(weights)} maps of {weights.shape[1]} x {weights.shape[2]} weights are {weights.size / 1e6:.1f} "
            f"million cells; at most {MOST // 1_000_000} million are drawn; choose maps or a part of the text"
        )


def _rows(layers: Sequence[int]) -> list[list[int]]:
    """The indices of the maps in each row: those of one layer, or as many as fit."""
    rows, first = [], 0
    for count in layers:
        rows += [
            [*range(at, min(at + COLUMNS, first + count))]
            for at in range(first, first + count, COLUMNS)
        ]
        first += count
    return rows


def _plan(
    figure: Figure,
    shape: Sequence[int],
    labels: tuple[Sequence[str], Sequence[str]],
    columns: int,
    named: Sequence[Word],
) -> Plan:
    longest = max(*shape, 1)
    cell = min(LARGEST, max((WIDTH / columns - BETWEEN) / longest, SMALLEST / longest))
    if cell < LABELLED and any(labels):
        cell = max(cell, min(LABELLED, (WIDEST / columns - BETWEEN) / longest))
    source, target = (measured(figure, side, _type(cell)) for side in labels)
    across = max(cell * shape[1], max(word.width for word in named)) + BETWEEN
    return Plan(cell, source, target, across, LINE + cell * shape[0] + BETWEEN)


def _type(cell: float) -> float:
    """The type size of labels, in points."""
    return min(9.0, max(cell, LABELLED) * 72 * 0.62)


def _axes(
    figure: Figure, plan: Plan, shape: Sequence[int], place: tuple[float, float]
) -> Axes:
    """The axes of a matrix with its upper left corner at `place`."""
    width, height = plan.cell * max(shape[1], 1), plan.cell * max(shape[0], 1)
    whole = tuple(figure.get_size_inches())
    return figure.add_axes(share((place[0], place[1] - height, width, height), whole))


def _draw(
    axes: Axes,
    weights: Float[np.ndarray, "target source"],
    most: float,
    *,
    rasterized: bool,
) -> None:
    rows, columns = weights.shape
    if weights.size and rasterized:
        axes.imshow(
            weights,
            cmap=colour_map(),
            vmin=0.0,
            vmax=most,
            aspect="auto",
            interpolation="none",
        )
    elif weights.size:
        axes.pcolormesh(
            np.arange(columns + 1) - 0.5,
            np.arange(rows + 1) - 0.5,
            weights,
            cmap=colour_map(),
            vmin=0,
            vmax=most,
        )
    axes.set(
        xlim=(-0.5, max(columns, 1) - 0.5),
        ylim=(max(rows, 1) - 0.5, -0.5),
        xticks=[],
        yticks=[],
    )
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=0.6)


def _label(axes: Axes, plan: Plan, *, left: bool, above: bool) -> None:
    """Label the pieces at the left of the first matrix of a row, and above the first row."""
    style = {"size": _type(plan.cell), "color": INK, "parse_math": False}
    gap = 0.03 / plan.cell
    step = math.ceil(
        LABELLED / plan.cell - 1e-9
    )  # in smaller cells every second, third or further label
    for place, word in [*enumerate(plan.target if left else ())][::step]:
        axes.text(
            -0.5 - gap,
            place,
            word.label,
            ha="right",
            va="center_baseline",
            family=word.fonts,
            **style,
        )
    for place, word in [*enumerate(plan.source if above else ())][::step]:
        upright = stacked(word.label)
        turned = {
            "rotation": 90,
            "rotation_mode": "anchor",
            "ha": "left",
            "va": "center_baseline",
        }
        stands = (
            turned
            if upright is None
            else {"ha": "center", "va": standing(upright), "linespacing": 1.0}
        )
        axes.text(
            place,
            -0.5 - gap,
            upright or word.label,
            family=word.fonts,
            **stands,
            **style,
        )
