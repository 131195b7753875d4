"""Weights as matrices: one alignment, or many maps side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.pictures.style import (
    GRID,
    INK,
    MUTED,
    PAPER,
    Box,
    Sizes,
    add_color_bar,
    choose_sizes,
    color_map,
    has_uniform_rows,
    plotting,
    round_up,
    to_fractions,
)
from regard.pictures.text import (
    MIN_TITLE_WIDTH,
    Word,
    choose_fonts,
    draw_text,
    explain_signs,
    layout_title,
    measure,
    new_figure,
    shorten,
    stack_letters,
    vertical_alignment,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

VECTOR_CELLS = 4096
DIVIDING = 1.6
"""The width of a line between rows, in points."""
AXIS_ROOM = 0.16
"""The room for the name of an axis, in inches."""
NO_GROUPS: Mapping[int, str] = MappingProxyType({})
NO_KEY = "nearly even: no query prefers a key"


SIDES = "source", "target"
"""What the columns and the rows are."""


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

    All cells are squares of one size, and the figure grows with the number of labels.
    The default scale makes all pictures comparable.

    Args:
        alignment: The weights.
        title: The title; further lines are details.
        vmax: The end of the scale. The color bar ends in a point if weights are larger.
        groups: Names of groups of rows by their first row, with a line above each.
        gaps: Columns that stand for others, in grey.
        sides: What the columns and the rows are.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        size = choose_sizes(max(alignment.weights.shape))
        figure = Figure(facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        _cells(axes, alignment, size, vmax)
        for row in groups:
            if row:
                axes.axhline(row, color=INK, linewidth=DIVIDING)
        for column in gaps:
            axes.axvspan(column, column + 1, color=GRID)
        top = _labels(axes, alignment.source, "x", size)
        side = _labels(axes, alignment.target, "y", size)
        _rotate_unless_short(figure, top, size)
        names = name_axes(sides, is_self_attention=alignment.source == alignment.target)
        signs = explain_signs(alignment.source, alignment.target)
        note = NO_KEY if has_uniform_rows(alignment.weights) else ""
        bar = _arrange(figure, (top, side), groups, (title, note, names, signs), size)
        add_color_bar(
            figure,
            bar,
            vmax=vmax,
            extends=bool((alignment.weights > vmax + 1e-6).any()),
        )
    return figure


def _cells(axes: Axes, alignment: Alignment, size: Sizes, vmax: float) -> None:
    rows, columns = alignment.weights.shape
    axes.set_xlim(0, max(columns, 1))
    axes.set_ylim(max(rows, 1), 0)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=size.line)
    if alignment.weights.size:
        axes.pcolormesh(
            alignment.weights,
            cmap=color_map(),
            vmin=0.0,
            vmax=vmax,
            edgecolors=GRID,
            linewidth=size.line,
            rasterized=alignment.weights.size > VECTOR_CELLS,
        )


def _labels(
    axes: Axes, labels: tuple[str, ...], side: Literal["x", "y"], size: Sizes
) -> list[Text]:
    axis = axes.xaxis if side == "x" else axes.yaxis
    texts_shown = [shorten(label) for label in labels]
    # Labels are plain text, never mathematics: '$' stays '$'.
    axis.set_ticks(
        [i + 0.5 for i in range(len(texts_shown))], texts_shown, parse_math=False
    )
    axes.tick_params(axis=side, length=0, pad=4, labelsize=size.label, labelcolor=INK)
    if side == "x":
        axes.xaxis.tick_top()
    texts = axis.get_ticklabels()
    for tick, family in zip(texts, choose_fonts(texts_shown), strict=True):
        tick.set_fontfamily(family)
    return texts


def _rotate_unless_short(figure: Figure, texts: list[Text], size: Sizes) -> None:
    """If a label is longer than a cell, turn all labels except those that can be stacked."""
    long = max(_extents(figure, texts, 0), default=0.0) > 0.92 * size.cell
    upright = [
        stack_letters(text.get_text()) if long else text.get_text() for text in texts
    ]
    labels = [
        text.get_text() if stands is None else stands
        for text, stands in zip(texts, upright, strict=True)
    ]
    figure.axes[0].xaxis.set_ticklabels(labels)
    for text, stands in zip(texts, upright, strict=True):
        if stands is None:
            text.set(
                rotation=90, rotation_mode="anchor", ha="left", va="center_baseline"
            )
        else:
            text.set(va=vertical_alignment(stands), linespacing=1.0)


def _extents(figure: Figure, texts: list[Text], axis: int) -> list[float]:
    """Return the widths (axis 0) or heights (axis 1) of texts, in inches."""
    return [text.get_window_extent().size[axis] / figure.dpi for text in texts]


def name_axes(sides: tuple[str, str], *, is_self_attention: bool) -> tuple[str, str]:
    """Return the names of the columns and the rows."""
    return (
        ("keys", "queries")
        if is_self_attention
        else (f"{sides[0]} (keys)", f"{sides[1]} (queries)")
    )


def _arrange(
    figure: Figure,
    labels: tuple[list[Text], list[Text]],
    groups: Mapping[int, str],
    words: tuple[str, str, tuple[str, str], str],
    size: Sizes,
) -> Box:
    """Set the size of the figure and place every part, in inches.

    Args:
        figure: The figure with its axes.
        labels: The labels of the columns and the rows.
        groups: The names of groups of rows.
        words: The title, a note below it, the names of the axes, the meanings of signs.
        size: The sizes.

    Returns:
        The box of the color bar.
    """
    axes, (title, note, names, signs) = figure.axes[0], words
    gap = 4 / 72 + size.margin
    first = measure(figure, list(groups.values()), size.label)
    aside = max((label.width for label in first), default=-size.margin) + size.margin
    width, height = axes.get_xlim()[1] * size.cell, axes.get_ylim()[0] * size.cell
    start = AXIS_ROOM + aside + gap + max(_extents(figure, labels[1], 0), default=0.0)
    above = AXIS_ROOM + gap + max(_extents(figure, labels[0], 1), default=0.0)
    bar, foot = min(max(height, 0.9), 2.4), AXIS_ROOM if signs else 0.0
    (name,) = measure(figure, [f"← {names[1]}"], size.small)
    across = max(
        start + width + 3 * size.margin + size.bar + 0.45,
        MIN_TITLE_WIDTH if title else 0.0,
    )
    heading = layout_title(
        figure, title, across - 2 * size.margin, *([note] if title else [])
    )
    head = heading.height + (size.margin if heading.height else 0.0)
    size_inches = (
        across,
        head + above + max(height, bar, name.width) + size.margin + foot,
    )
    figure.set_size_inches(size_inches)
    base = size_inches[1] - head - above
    axes.set_position(to_fractions((start, base - height, width, height), size_inches))
    heading.draw(figure, size.margin, size_inches[1] - size.margin)
    style = {"size": size.small, "color": MUTED}
    draw_text(
        figure,
        f"{names[0]} →",
        (start, base + above - size.margin / 2 - AXIS_ROOM / 2),
        **style,
    )
    side = size.margin + AXIS_ROOM / 2, base
    figure.text(
        *side,
        name.label,
        transform=figure.dpi_scale_trans,
        rotation=90,
        ha="center",
        va="top",
        **style,
    )
    for row, word in zip(groups, first, strict=True):
        at = size.margin + AXIS_ROOM + size.margin / 2, base - (row + 0.5) * size.cell
        draw_text(
            figure, word.label, at, size=size.label, color=MUTED, family=word.fonts
        )
    if signs:
        draw_text(figure, signs, (size.margin, AXIS_ROOM / 2), **style)
    return to_fractions(
        (start + width + 2 * size.margin, base - bar, size.bar, bar), size_inches
    )


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARGIN, LINE, BETWEEN, BAR, WIDTH = 0.15, 0.18, 0.12, 0.6, 7.0
"""The margin, the height of a text line, the gap between matrices, the width of the
colour bar with its gap, and the width of all matrices, in inches."""
SMALLEST, LARGEST = 0.75, 0.3
"""The minimum side of a matrix and the maximum side of a cell, in inches."""
LABELED_CELL = 0.115
"""The minimum side of a cell with a label of its own, in inches."""
NAME_SIZE = 7.0
"""The type size of the matrices' names, in points."""
AXES = "each matrix: down the targets (queries), across the sources (keys)"
MAX_WIDTH = 14.0
"""The width up to which all matrices grow so that every label fits, in inches."""
MAX_COLUMNS = 16
"""The maximum of matrices in a row."""
MAX_CELLS = 4_000_000
"""The maximum of cells in all matrices together."""


@dataclass(frozen=True)
class Plan:
    """Lengths in inches: the side of a cell, the room for labels, and the distances."""

    cell: float
    source: list[Word]
    target: list[Word]
    across: float
    down: float

    @property
    def label_width(self) -> float:
        return max((word.width + 0.08 for word in self.target), default=0.0)

    @property
    def label_height(self) -> float:
        line = 1.25 * _type_size(self.cell) / 72
        tall = (
            len(word.label) * line if stack_letters(word.label) else word.width
            for word in self.source
        )
        return max(tall, default=-0.08) + 0.08


def multiples(
    weights: Float[np.ndarray, "map target source"],
    names: Sequence[str],
    layers: Sequence[int],
    labels: tuple[Sequence[str], Sequence[str]] = ((), ()),
    *,
    vmax: float | None = None,
    title: str = "",
) -> Figure:
    """Plot one matrix per map, one row of matrices per layer, on one scale.

    Args:
        weights: The maps, targets down and sources across.
        names: The name of each map.
        layers: The number of maps of each layer.
        labels: The labels of sources and targets, drawn if there is room.
        vmax: The end of the scale. Default: the greatest weight, rounded up.
        title: The title; further lines are details.

    Raises:
        InputError: There are too many cells, matplotlib is not installed, or no
            installed font has a character.
    """
    _check(weights)
    vmax = round_up(weights) if vmax is None else vmax
    rows = _rows(layers)
    with plotting():
        figure = new_figure()
        named = measure(figure, names, NAME_SIZE)
        plan = _plan(figure, weights.shape[1:], labels, max(map(len, rows)), named)
        width = max(
            MARGIN + plan.label_width + max(map(len, rows)) * plan.across + BAR,
            MIN_TITLE_WIDTH if title else 0.0,
        )
        notes = (AXES, explain_signs(*labels)) if plan.source else ()
        heading = layout_title(figure, title, width - 2 * MARGIN, *notes)
        top = plan.label_height + len(rows) * plan.down
        figure.set_size_inches(width, height := MARGIN + top + heading.height)
        heading.draw(figure, MARGIN, height - MARGIN / 2)
        for down, row in enumerate(rows):
            high = top - down * plan.down - (plan.label_height if down else 0.0)
            for across, number in enumerate(row):
                word, start = (
                    named[number],
                    MARGIN + plan.label_width + across * plan.across,
                )
                draw_text(
                    figure,
                    word.label,
                    (start, high - LINE / 2),
                    size=NAME_SIZE,
                    color=MUTED,
                    family=word.fonts,
                )
                axes = _axes(
                    figure,
                    plan,
                    weights.shape[1:],
                    (start, high - LINE - (0.0 if down else plan.label_height)),
                )
                _draw(
                    axes, weights[number], vmax, rasterized=weights.size > VECTOR_CELLS
                )
                _label(axes, plan, label_rows=across == 0, label_columns=down == 0)
        tall = min(2.0, plan.down - LINE - BETWEEN)
        box = (
            width - BAR + 0.05,
            top - LINE - plan.label_height - tall,
            choose_sizes(1).bar,
            tall,
        )
        add_color_bar(
            figure,
            to_fractions(box, (width, height)),
            vmax=vmax,
            extends=bool((weights > vmax + 1e-6).any()),
        )
    return figure


def _check(weights: Float[np.ndarray, "map target source"]) -> None:
    if weights.size > MAX_CELLS:
        raise InputError(
            f"{len(weights)} maps of {weights.shape[1]} x {weights.shape[2]} weights are {weights.size / 1e6:.1f} "
            f"million cells; at most {MAX_CELLS // 1_000_000} million are drawn; choose maps or a part of the text"
        )


def _rows(layers: Sequence[int]) -> list[list[int]]:
    """Return the indices of the maps in each row: a layer, or as many as fit."""
    rows, first = [], 0
    for count in layers:
        rows += [
            [*range(at, min(at + MAX_COLUMNS, first + count))]
            for at in range(first, first + count, MAX_COLUMNS)
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
    if cell < LABELED_CELL and any(labels):
        cell = max(cell, min(LABELED_CELL, (MAX_WIDTH / columns - BETWEEN) / longest))
    source, target = (measure(figure, side, _type_size(cell)) for side in labels)
    across = max(cell * shape[1], max(word.width for word in named)) + BETWEEN
    return Plan(cell, source, target, across, LINE + cell * shape[0] + BETWEEN)


def _type_size(cell: float) -> float:
    """Return the type size of labels, in points."""
    return min(9.0, max(cell, LABELED_CELL) * 72 * 0.62)


def _axes(
    figure: Figure, plan: Plan, shape: Sequence[int], place: tuple[float, float]
) -> Axes:
    """Add the axes of a matrix with its upper left corner at `place`."""
    width, height = plan.cell * max(shape[1], 1), plan.cell * max(shape[0], 1)
    size_inches = tuple(figure.get_size_inches())
    return figure.add_axes(
        to_fractions((place[0], place[1] - height, width, height), size_inches)
    )


def _draw(
    axes: Axes,
    weights: Float[np.ndarray, "target source"],
    vmax: float,
    *,
    rasterized: bool,
) -> None:
    rows, columns = weights.shape
    if weights.size and rasterized:
        axes.imshow(
            weights,
            cmap=color_map(),
            vmin=0.0,
            vmax=vmax,
            aspect="auto",
            interpolation="none",
        )
    elif weights.size:
        axes.pcolormesh(
            np.arange(columns + 1) - 0.5,
            np.arange(rows + 1) - 0.5,
            weights,
            cmap=color_map(),
            vmin=0,
            vmax=vmax,
        )
    axes.set(
        xlim=(-0.5, max(columns, 1) - 0.5),
        ylim=(max(rows, 1) - 0.5, -0.5),
        xticks=[],
        yticks=[],
    )
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=0.6)


def _label(axes: Axes, plan: Plan, *, label_rows: bool, label_columns: bool) -> None:
    """Label the pieces at the left of the first matrix of a row, and above the first row."""
    style = {"size": _type_size(plan.cell), "color": INK, "parse_math": False}
    gap = 0.03 / plan.cell
    step = math.ceil(
        LABELED_CELL / plan.cell - 1e-9
    )  # in smaller cells every second, third or further label
    for place, word in [*enumerate(plan.target if label_rows else ())][::step]:
        axes.text(
            -0.5 - gap,
            place,
            word.label,
            ha="right",
            va="center_baseline",
            family=word.fonts,
            **style,
        )
    for place, word in [*enumerate(plan.source if label_columns else ())][::step]:
        upright = stack_letters(word.label)
        turned = {
            "rotation": 90,
            "rotation_mode": "anchor",
            "ha": "left",
            "va": "center_baseline",
        }
        stands = (
            turned
            if upright is None
            else {"ha": "center", "va": vertical_alignment(upright), "linespacing": 1.0}
        )
        axes.text(
            place,
            -0.5 - gap,
            upright or word.label,
            family=word.fonts,
            **stands,
            **style,
        )
