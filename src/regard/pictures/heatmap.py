"""Weights as matrices: one alignment, or many maps side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.alignment import Alignment, Matrix
from regard.pictures.canvas import (
    GRID,
    INK,
    LETTER,
    MARGIN,
    add_color_bar,
    cell_side,
    color_map,
    grid_figure,
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
LABEL_LETTERS = 40
"""The maximum of letters of a label."""
NO_KEY = "nearly even: no query prefers a key"
SIDES = "source", "target"
"""The roles of the columns and the rows."""


def draw_matrix(axes: Axes, weights: Matrix, end: float, line: float = 0.0) -> None:
    """Draw a matrix of square cells, from white at 0 to dark at `end`.

    Args:
        axes: Where to draw it.
        end: The end of the scale.
        line: The width of the lines between cells, in points.
    """
    rows, columns = (max(size, 1) for size in weights.shape)
    cells = weights.size
    scale: Any = {"cmap": color_map(), "vmin": 0.0, "vmax": end}
    if cells and line:
        scale |= {"edgecolors": GRID, "linewidth": line}
        axes.pcolormesh(weights, rasterized=cells > VECTOR_CELLS, **scale)
    elif cells:
        axes.imshow(weights, extent=(0, columns, rows, 0), **scale)
    axes.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[], aspect="equal")
    axes.set_anchor("NW")


def label_axes(
    axes: Axes, source: Sequence[str], target: Sequence[str], size: float
) -> None:
    """Label the columns above and the rows beside a matrix.

    If a label has several letters, labels of columns are rotated, except those that can
    be stacked.
    """
    columns, labels = place_labels(source)
    if columns:
        stacked = [stack_letters(label) for label in labels]
        texts = [up or label for up, label in zip(stacked, labels, strict=True)]
        axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
        axes.set_xticks(columns, texts, linespacing=1, size=size, color=INK)
        ticks = axes.get_xticklabels()
        for tick, upright in zip(ticks, stacked, strict=True):
            tick.set_rotation(90 if upright is None else 0)
    rows, labels = place_labels(target)
    if rows:
        axes.tick_params(left=False)
        axes.set_yticks(rows, labels, size=size, color=INK)


def place_labels(labels: Sequence[str]) -> tuple[list[float], list[str]]:
    """Return the middles of the cells with a label, and their labels, shortened."""
    places = []
    texts = []
    for index, label in enumerate(labels):
        if label:
            places.append(index + 0.5)
            texts.append(shorten(label, LABEL_LETTERS))
    return places, texts


def measure_labels(labels: Sequence[str], size: float) -> float:
    """Estimate the width of the widest label, in inches."""
    texts = [shorten(label, LABEL_LETTERS) for label in labels]
    widths = []
    for text in texts:
        wide_letters = sum(char > "\u2e80" for char in text)
        widths.append(len(text) + wide_letters)
    return max(widths, default=0) * size * LETTER


def check_size(source: int, target: int, remedy: str) -> None:
    """Check that a picture has at most `LABELS` labels per side.

    Args:
        source: The number of sources.
        target: The number of targets.
        remedy: What to do if there are more.

    Raises:
        InputError: There are more.
    """
    if max(source, target) > LABELS:
        raise InputError(
            f"the map has {target} x {source} positions; at most {LABELS} per side are drawn: {remedy}"
        )


def heatmap(
    alignment: Alignment,
    *,
    title: str = "",
    vmax: float = 1.0,
    gaps: Sequence[int] = (),
    sides: tuple[str, str] = SIDES,
    remedy: str = "give a part of the text",
) -> Figure:
    """Plot an alignment, from white at 0 to dark at `vmax`.

    All cells are squares, and the figure grows with their number. The default scale
    makes all pictures comparable.

    Args:
        alignment: The weights.
        title: The title; further lines are details.
        vmax: The end of the scale. The color bar ends in a point if weights are larger.
        gaps: Columns that stand for others, in grey.
        sides: The roles of the columns and the rows.
        remedy: What to do if there are too many labels.

    Raises:
        InputError: There are more than 512 labels on a side, matplotlib is not
            installed, or no installed font has a character.
    """
    weights, source, target = alignment.weights, alignment.source, alignment.target
    check_size(len(source), len(target), remedy)
    longest = max(weights.shape)
    cell = cell_side(longest)
    size = label_type(cell)
    source_role, target_role = sides
    names = f"{source_role} (keys) →", f"← {target_role} (queries)"
    if source == target:
        names = "keys →", "← queries"
    uniform = NO_KEY if has_uniform_rows(weights) else ""
    notes = uniform, explain_signs(source, target)
    rows, columns = (cell * max(count, 3) for count in weights.shape)
    width = columns + measure_labels(target, size) + 1.2
    height = rows + measure_labels(source, size) + 0.6
    with plotting(title, *source, *target):
        figure, ((axes,),) = grid_figure(title, 1, 1, (width, height), *notes)
        line = 0.6 if longest <= 64 else 0.25
        draw_matrix(axes, weights, vmax, line)
        label_axes(axes, source, target, size)
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.xaxis.set_label_position("top")
        for column in gaps:
            axes.axvspan(column, column + 1, color=GRID)
        add_color_bar(figure, vmax, weights, ax=axes)
    return figure


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
    cells = weights.size
    if cells > MAX_CELLS:
        raise InputError(
            f"{len(weights)} maps of {targets} x {sources} weights are "
            f"{cells / 1e6:.1f} million cells; at most "
            f"{MAX_CELLS // 1_000_000} million are drawn; choose maps or a part of the "
            "text"
        )
    end = round_up(weights) if vmax is None else vmax
    rows = split_layers(layers)
    columns = max(map(len, rows))
    longest = max(targets, sources, 1)
    side = max(WIDTH / columns - BETWEEN, SMALLEST)
    cell = min(LARGEST, side / longest)
    above, beside = sides
    has_labels = any(sides)
    if has_labels:
        room = MAX_WIDTH / columns - BETWEEN
        cell = max(cell, min(LABELED_CELL, room / longest))
    name_width = measure_labels(names, NAME_TYPE)
    cell = max(cell, name_width / max(sources, 1))
    size = min(9.0, label_type(max(cell, LABELED_CELL)))
    gap = math.ceil(NAME_LINE / cell)
    mosaic, places = tile(weights, rows, gap)
    height, width = (cell * count for count in mosaic.shape)
    width += measure_labels(beside, size) + 1
    height += measure_labels(above, size) + MARGIN
    notes = (AXES, explain_signs(*sides)) if has_labels else ()
    with plotting(title, *names, *above, *beside):
        from matplotlib.patches import Rectangle

        figure, ((axes,),) = grid_figure(title, 1, 1, (width, height), *notes)
        draw_matrix(axes, mosaic, end)
        axes.set_frame_on(False)
        if has_labels:
            # in smaller cells every second, third or further label
            step = math.ceil(LABELED_CELL / cell - 1e-9)
            blank = [""] * gap
            above = thin_labels(above, step) + blank
            beside = blank + thin_labels(beside, step)
            label_axes(axes, above * columns, beside * len(rows), size)
        for number, (edge, top) in places.items():
            frame = Rectangle((edge, top), sources, targets, fill=False, edgecolor=GRID)
            axes.add_patch(frame)
            axes.text(edge, top, names[number], size=NAME_TYPE, va="bottom")
        add_color_bar(figure, end, weights, ax=axes)
    return figure


def thin_labels(labels: Sequence[str], step: int) -> list[str]:
    """Return the labels, empty except for every `step`-th."""
    thinned = [""] * len(labels)
    thinned[::step] = labels[::step]
    return thinned


def split_layers(layers: Sequence[int]) -> list[range]:
    """Return the numbers of the maps in each row, by the number of maps of each layer."""
    rows = []
    start = 0
    for count in layers:
        maps = range(start, start + count)
        rows += [maps[first:][:MAX_COLUMNS] for first in range(0, count, MAX_COLUMNS)]
        start += count
    return rows


def tile(
    weights: Float[np.ndarray, "map target source"], rows: Sequence[range], gap: int
) -> tuple[np.ndarray, dict[int, tuple[int, int]]]:
    """Return rows of maps as one matrix, with gaps above and behind each map.

    The gaps are NaN. The second result has the first column and row of each map.
    """
    targets, sources = weights.shape[1:]
    wide, tall = sources + gap, targets + gap
    mosaic = np.full((len(rows) * tall, max(map(len, rows)) * wide), np.nan)
    places = {}
    for row, numbers in enumerate(rows):
        top = row * tall + gap
        for column, number in enumerate(numbers):
            edge = column * wide
            mosaic[top : top + targets, edge : edge + sources] = weights[number]
            places[number] = edge, top
    return mosaic, places
