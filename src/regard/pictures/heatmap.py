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
    MARGIN,
    Canvas,
    exceeds,
    widest,
)
from regard.pictures.style import (
    GRID,
    INK,
    SMALL_TYPE,
    cell_side,
    color_map,
    has_uniform_rows,
    label_type,
    plotting,
    round_up,
)
from regard.pictures.text import explain_signs, shorten, stack_letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 512
"""The maximum of labels on each side of a picture."""
VECTOR_CELLS = 4096
"""The maximum of cells that are drawn as vectors."""
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
        self.canvas = canvas
        self.cell = cell
        self.size = size
        source = [shorten(label) for label in sides[0]]
        target = [shorten(label) for label in sides[1]]
        self.source = canvas.measure(source, size)
        self.target = canvas.measure(target, size)
        line = 1.25 * size / 72
        self.upright = [word.label for word in self.source]
        heights = [line for _ in self.source]
        if widest(self.source) > 0.92 * cell:
            self.upright = [stack_letters(word.label) for word in self.source]
            heights = []
            for word, stack in zip(self.source, self.upright, strict=True):
                if stack is None:
                    heights.append(word.width)
                else:
                    heights.append(line * len(word.label))
        self.height = max(heights, default=-2 * LABEL_GAP) + 2 * LABEL_GAP
        self.width = widest(self.target, -LABEL_GAP) + LABEL_GAP

    def add(
        self,
        place: tuple[float, float],
        weights: Matrix,
        end: float,
        *,
        line: float = 0.0,
        vector: bool = True,
    ) -> Axes:
        """Add a matrix, from white at 0 to dark at `end`.

        Args:
            place: Its left and upper edges.
            weights: The weights.
            end: The end of the scale.
            line: The width of the lines between cells, in points.
            vector: Whether to draw each cell as a vector.
        """
        rows, columns = (max(size, 1) for size in weights.shape)
        box = (*place, self.cell * columns, self.cell * rows)
        axes = self.canvas.add_axes(box)
        scale: Any = {"cmap": color_map(), "vmin": 0.0, "vmax": end}
        if weights.size and (vector or line):
            axes.pcolormesh(
                weights,
                rasterized=not vector,
                edgecolors=GRID if line else "none",
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
    weights = alignment.weights
    source = alignment.source
    target = alignment.target
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
        matrices = Matrices(canvas, (source, target), cell, size)
        group_names = canvas.measure(list(groups.values()), size)
        columns_name = f"{sides[0]} (keys) →"
        rows_name = f"← {sides[1]} (queries)"
        if source == target:
            columns_name = "keys →"
            rows_name = "← queries"
        (measured_rows_name,) = canvas.measure([rows_name], SMALL_TYPE)

        group_edge = MARGIN + AXIS_ROOM + LABEL_GAP
        edge = group_edge + matrices.width
        if groups:
            edge += widest(group_names) + MARGIN
        right = edge + cell * max(len(source), 1)
        note = NO_KEY if has_uniform_rows(weights) else ""
        y = canvas.add_title(title, right + MARGIN + BAR + 0.35, note)
        canvas.text(columns_name, edge, y + AXIS_ROOM / 2)
        top = y + AXIS_ROOM + matrices.height
        axes = matrices.add(
            (edge, top),
            weights,
            vmax,
            line=0.6 if longest <= 64 else 0.25,
            vector=weights.size <= VECTOR_CELLS,
        )
        matrices.draw_rows(edge, top)
        matrices.draw_columns(edge, top)
        for column in gaps:
            axes.axvspan(column, column + 1, color=GRID)
        for row, name in zip(groups, group_names, strict=True):
            if row:
                axes.axhline(row, color=INK, linewidth=1.6)
            middle = top + (row + 0.5) * cell
            canvas.text(name, group_edge, middle, size=size)
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
        canvas.add_color_bar(box, vmax, extends=exceeds(weights, vmax))
        bottom = top + max(height, bar_height, measured_rows_name.width)
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

    rows = []
    start = 0
    for count in layers:
        stop = start + count
        for first in range(start, stop, MAX_COLUMNS):
            rows.append(range(first, min(first + MAX_COLUMNS, stop)))
        start = stop

    columns = max(map(len, rows))
    longest = max(targets, sources, 1)
    largest = max(
        (WIDTH / columns - BETWEEN) / longest,
        SMALLEST / longest,
    )
    cell = min(LARGEST, largest)
    if any(sides):
        fitting = (MAX_WIDTH / columns - BETWEEN) / longest
        cell = max(cell, min(LABELED_CELL, fitting))
    # in smaller cells every second, third or further label
    step = math.ceil(LABELED_CELL / cell - 1e-9)

    with plotting():
        canvas = Canvas()
        measured_names = canvas.measure(names, NAME_TYPE)
        size = min(9.0, label_type(max(cell, LABELED_CELL)))
        matrices = Matrices(canvas, sides, cell, size)
        height = cell * max(targets, 1)
        across = max(cell * sources, widest(measured_names)) + BETWEEN
        left = MARGIN + matrices.width
        right = left + columns * across
        notes = (AXES, explain_signs(*sides)) if any(sides) else ()
        y = canvas.add_title(title, right + 0.3, *notes)
        bar_top = y + NAME_LINE + matrices.height
        for row in rows:
            is_first = row is rows[0]
            top = y + NAME_LINE
            if is_first:
                top = bar_top
            for column, number in enumerate(row):
                edge = left + column * across
                canvas.text(
                    measured_names[number],
                    edge,
                    y + NAME_LINE / 2,
                    size=NAME_TYPE,
                )
                matrices.add(
                    (edge, top),
                    weights[number],
                    end,
                    vector=weights.size <= VECTOR_CELLS,
                )
                if is_first:
                    matrices.draw_columns(edge, top, step)
            matrices.draw_rows(left, top, step)
            y = top + height + BETWEEN
        canvas.add_color_bar(
            (right + 0.05, bar_top, BAR, min(2.0, height)),
            end,
            extends=exceeds(weights, end),
        )
        return canvas.finish(y - BETWEEN)
