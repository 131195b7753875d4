"""Weights as matrices: one alignment, or many maps side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.alignment import Alignment, Matrix
from regard.pictures.canvas import (
    BAR,
    GRID,
    INK,
    MARGIN,
    SMALL_TYPE,
    Canvas,
    cell_side,
    color_map,
    has_uniform_rows,
    label_type,
    plotting,
    round_up,
    widest,
)
from regard.pictures.text import explain_signs, stack_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 512
"""The maximum of labels on each side of a picture."""
VECTOR_CELLS = 4096
"""The maximum of cells that are drawn as vectors."""
LABEL_LETTERS = 40
"""The maximum of letters of a label."""
LABEL_GAP, AXIS_ROOM = 0.06, 0.16
"""The gap between labels and cells, and the room for the name of an axis, in inches."""
NO_GROUPS: Mapping[int, str] = MappingProxyType({})
NO_KEY = "nearly even: no query prefers a key"
SIDES = "source", "target"
"""The roles of the columns and the rows."""


class Matrices:
    """Matrices with cells of one size and the same labels, in inches.

    If a label is longer than a cell, labels of columns are rotated, except those that
    can be stacked.
    """

    def __init__(
        self,
        canvas: Canvas,
        sides: tuple[Sequence[str], Sequence[str]],
        cell: float,
        size: float,
    ):
        self.canvas, self.cell, self.size = canvas, cell, size
        self.source = canvas.measure(sides[0], size, LABEL_LETTERS)
        self.target = canvas.measure(sides[1], size, LABEL_LETTERS)
        self.upright: list[str | None] = []
        heights = []
        is_narrow = widest(self.source) > 0.92 * cell
        for word in self.source:
            upright = stack_letters(word.label) if is_narrow else word.label
            self.upright.append(upright)
            if upright is None:
                heights.append(word.width)
            else:
                heights.append(1.25 * size / 72 * (1 + upright.count("\n")))
        self.height = max(heights, default=-2 * LABEL_GAP) + 2 * LABEL_GAP
        self.width = widest(self.target, -LABEL_GAP) + LABEL_GAP

    def add(
        self,
        place: tuple[float, float],
        weights: Matrix,
        end: float,
        line: float = 0.0,
    ) -> Axes:
        """Add a matrix, from white at 0 to dark at `end`.

        Args:
            place: Its left and upper edges.
            weights: The weights.
            end: The end of the scale.
            line: The width of the lines between cells, in points.
        """
        rows, columns = (max(size, 1) for size in weights.shape)
        box = (*place, self.cell * columns, self.cell * rows)
        axes = self.canvas.add_axes(box)
        scale: Any = {"cmap": color_map(), "vmin": 0.0, "vmax": end}
        if weights.size and line:
            axes.pcolormesh(
                weights,
                rasterized=weights.size > VECTOR_CELLS,
                edgecolors=GRID,
                linewidth=line,
                **scale,
            )
        elif weights.size:
            axes.imshow(weights, extent=(0, columns, rows, 0), **scale)
        axes.set(
            xlim=(0, columns),
            ylim=(rows, 0),
            xticks=[],
            yticks=[],
        )
        return axes

    def draw_rows(self, edge: float, top: float, step: int = 1) -> None:
        """Draw every `step`-th label of the rows beside a matrix at this place."""
        for row in range(0, len(self.target), step):
            self.canvas.text(
                self.target[row],
                edge - LABEL_GAP,
                top + (row + 0.5) * self.cell,
                size=self.size,
                color=INK,
                ha="right",
            )

    def draw_columns(self, edge: float, top: float, step: int = 1) -> None:
        """Draw every `step`-th label of the columns above a matrix at this place."""
        for column in range(0, len(self.source), step):
            word = self.source[column]
            upright = self.upright[column]
            style = {"rotation": 90, "rotation_mode": "anchor", "ha": "left"}
            if upright is not None:
                # a single line stands on the baseline, where "." and "'" belong
                align = "bottom" if "\n" in upright else "baseline"
                style = {"ha": "center", "va": align, "linespacing": 1.0}
            self.canvas.text(
                upright or word.label,
                edge + (column + 0.5) * self.cell,
                top - LABEL_GAP,
                size=self.size,
                color=INK,
                family=word.fonts,
                **style,
            )


def heatmap(
    alignment: Alignment,
    *,
    title: str = "",
    vmax: float = 1.0,
    groups: Mapping[int, str] = NO_GROUPS,
    gaps: Sequence[int] = (),
    sides: tuple[str, str] = SIDES,
) -> Figure:
    """Plot an alignment, from white at 0 to dark at `vmax`.

    All cells are squares of one size, and the figure grows with the number of matrices.
    The default scale makes all pictures comparable.

    Args:
        alignment: The weights.
        title: The title; further lines are details.
        vmax: The end of the scale. The color bar ends in a point if weights are larger.
        groups: Names of groups of rows by their first row, with a line above each.
        gaps: Columns that stand for others, in grey.
        sides: The roles of the columns and the rows.

    Raises:
        InputError: There are more than 512 labels on a side, matplotlib is not
            installed, or no installed font has a character.
    """
    weights, source, target = alignment.weights, alignment.source, alignment.target
    longest = max(weights.shape)
    if longest > LABELS:
        raise InputError(
            f"{len(source)} source x {len(target)} target labels; at most {LABELS} per "
            "side are drawn; give a part of the text"
        )
    cell = cell_side(longest)
    size = label_type(cell)
    with plotting():
        canvas = Canvas()
        matrices = Matrices(
            canvas,
            (source, target),
            cell,
            size,
        )
        group_names = canvas.measure(list(groups.values()), size)
        names = f"{sides[0]} (keys) →", f"← {sides[1]} (queries)"
        if source == target:
            names = "keys →", "← queries"
        columns_name, rows_name = canvas.measure(names, SMALL_TYPE)

        group_edge = MARGIN + AXIS_ROOM + LABEL_GAP
        edge = group_edge + matrices.width
        if groups:
            edge += widest(group_names) + MARGIN
        right = edge + cell * max(len(source), 1)
        note = NO_KEY if has_uniform_rows(weights) else ""
        y = canvas.add_title(title, right + MARGIN + BAR + 0.35, note)
        canvas.text(columns_name, edge, y + AXIS_ROOM / 2)
        top = y + AXIS_ROOM + matrices.height
        line = 0.6 if longest <= 64 else 0.25
        axes = matrices.add(
            (edge, top),
            weights,
            vmax,
            line,
        )
        matrices.draw_rows(edge, top)
        matrices.draw_columns(edge, top)
        for column in gaps:
            axes.axvspan(column, column + 1, color=GRID)
        for row, name in zip(groups, group_names, strict=True):
            if row:
                axes.axhline(row, color=INK, linewidth=1.6)
            canvas.text(
                name,
                group_edge,
                top + (row + 0.5) * cell,
                size=size,
            )
        canvas.text(
            rows_name,
            MARGIN + AXIS_ROOM / 2,
            top,
            rotation=90,
            ha="center",
            va="top",
        )

        height = cell * max(len(target), 1)
        bar_height = min(max(height, 0.9), 2.4)
        box = (right + 2 * MARGIN, top, BAR, bar_height)
        canvas.add_color_bar(box, vmax, weights)
        bottom = top + max(height, bar_height, rows_name.width)
        if signs := explain_signs(source, target):
            canvas.text(signs, MARGIN, bottom + MARGIN + AXIS_ROOM / 2)
            bottom += MARGIN + AXIS_ROOM
        return canvas.finish(bottom)


BETWEEN, WIDTH = 0.12, 7.0
"""The gap between matrices, and the width of all matrices, in inches."""
SMALLEST, LARGEST = 0.75, 0.3
"""The minimum side of a matrix and the maximum side of a cell, in inches."""
LABELED_CELL = 0.115
"""The minimum side of a cell with a label of its own, in inches."""
NAME_TYPE, NAME_LINE = 7.0, 0.18
"""The type size of the matrices' names in points, and their height in inches."""
AXES = "each matrix: down the targets (queries), across the sources (keys)"
MAX_WIDTH = 14.0
"""The width up to which all matrices grow so that every label fits, in inches."""
MAX_COLUMNS = 16
"""The maximum of matrices in a row."""
MAX_CELLS = 4_000_000
"""The maximum of cells in all matrices together."""


def multiples(
    weights: Float[np.ndarray, "map target source"],
    names: Sequence[str],
    layers: Sequence[int],
    sides: tuple[Sequence[str], Sequence[str]] = ((), ()),
    *,
    vmax: float | None = None,
    title: str = "",
) -> Figure:
    """Plot one matrix per map, one row of matrices per layer, on one scale.

    Args:
        weights: The maps, targets down and sources across.
        names: The name of each map.
        layers: The number of maps of each layer.
        sides: The labels of sources and targets, drawn if there is room.
        vmax: The end of the scale. Default: the greatest weight, rounded up.
        title: The title; further lines are details.

    Raises:
        InputError: There are too many cells, matplotlib is not installed, or no
            installed font has a character.
    """
    targets, sources = weights.shape[1:]
    if weights.size > MAX_CELLS:
        raise InputError(
            f"{len(weights)} maps of {targets} x {sources} weights are "
            f"{weights.size / 1e6:.1f} million cells; at most "
            f"{MAX_CELLS // 1_000_000} million are drawn; choose maps or a part of the "
            "text"
        )
    end = round_up(weights) if vmax is None else vmax

    rows: list[range] = []
    start = 0
    for count in layers:
        maps = range(start, start + count)
        rows += [
            maps[part : part + MAX_COLUMNS] for part in range(0, count, MAX_COLUMNS)
        ]
        start += count
    columns = max(map(len, rows))
    longest = max(targets, sources, 1)
    cell = min(LARGEST, max(WIDTH / columns - BETWEEN, SMALLEST) / longest)
    if any(sides):
        cell = max(cell, min(LABELED_CELL, (MAX_WIDTH / columns - BETWEEN) / longest))
    # in smaller cells every second, third or further label
    step = math.ceil(LABELED_CELL / cell - 1e-9)

    with plotting():
        canvas = Canvas()
        words = canvas.measure(names, NAME_TYPE)
        size = min(9.0, label_type(max(cell, LABELED_CELL)))
        matrices = Matrices(
            canvas,
            sides,
            cell,
            size,
        )
        height = cell * max(targets, 1)
        across = max(cell * sources, widest(words)) + BETWEEN
        origin = MARGIN + matrices.width
        right = origin + columns * across
        notes = (AXES, explain_signs(*sides)) if any(sides) else ()
        y = canvas.add_title(title, right + 0.3, *notes)
        bar_top = y + NAME_LINE + matrices.height
        for row in rows:
            is_first = row is rows[0]
            top = bar_top if is_first else y + NAME_LINE
            for column, number in enumerate(row):
                edge = origin + column * across
                canvas.text(
                    words[number],
                    edge,
                    y + NAME_LINE / 2,
                    size=NAME_TYPE,
                )
                matrices.add((edge, top), weights[number], end)
                if is_first:
                    matrices.draw_columns(edge, top, step)
            matrices.draw_rows(origin, top, step)
            y = top + height + BETWEEN
        bar = (right + 0.05, bar_top, BAR, min(2.0, height))
        canvas.add_color_bar(bar, end, weights)
        return canvas.finish(y - BETWEEN)
