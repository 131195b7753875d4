"""The alignment matrix as a figure: source along the top, target down the side (Bahdanau 2015, figure 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from regard.maps.alignment import Alignment
from regard.pictures.fonts import families
from regard.pictures.inches import measured, text
from regard.pictures.labels import drawable, meanings, stacked, standing
from regard.pictures.scale import Box, colour_bar, colour_map, even_rows, share
from regard.pictures.style import GRID, INK, MUTED, PAPER, Sizes, plotting, sizes
from regard.pictures.title import LEAST, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

VECTOR_CELLS = 4096
DIVIDING = 1.6
"""The width of a line between rows, in points."""
NAME = 0.16
"""The room for the name of an axis, in inches."""
NO_GROUPS: Mapping[int, str] = MappingProxyType({})
NO_KEY = "nearly even: no query prefers a key"


SIDES = "source", "target"
"""What the columns and the rows are."""


def heatmap(
    alignment: Alignment,
    *,
    title: str = "",
    most: float = 1.0,
    groups: Mapping[int, str] = NO_GROUPS,
    gaps: Sequence[int] = (),
    sides: tuple[str, str] = SIDES,
) -> Figure:
    """A figure of the weights, from white at 0 to dark at `most`. The default scale makes all pictures comparable.

    All cells are squares of one size, and the figure grows with the number of labels. Weights above `most` have its
    colour, and the colour bar then ends in a point. `groups` names groups of rows by their first row, each with a line
    above it; the columns `gaps`, which stand for others, are grey. `sides` names what the columns and the rows are.
    Raises InputError without matplotlib, or if no installed font has a label's characters."""
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        size = sizes(max(alignment.weights.shape))
        figure = Figure(facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        _cells(axes, alignment, size, most)
        for row in groups:
            if row:
                axes.axhline(row, color=INK, linewidth=DIVIDING)
        for column in gaps:
            axes.axvspan(column, column + 1, color=GRID)
        top = _labels(axes, alignment.source, "x", size)
        side = _labels(axes, alignment.target, "y", size)
        _turn_unless_short(figure, top, size)
        names = axis_names(sides, own=alignment.source == alignment.target)
        signs = meanings(alignment.source, alignment.target)
        note = NO_KEY if even_rows(alignment.weights) else ""
        bar = _arrange(figure, (top, side), groups, (title, note, names, signs), size)
        colour_bar(
            figure, bar, most=most, above=bool((alignment.weights > most + 1e-6).any())
        )
    return figure


def _cells(axes: Axes, alignment: Alignment, size: Sizes, most: float) -> None:
    rows, columns = alignment.weights.shape
    axes.set_xlim(0, max(columns, 1))
    axes.set_ylim(max(rows, 1), 0)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=size.line)
    if alignment.weights.size:
        axes.pcolormesh(
            alignment.weights,
            cmap=colour_map(),
            vmin=0.0,
            vmax=most,
            edgecolors=GRID,
            linewidth=size.line,
            rasterized=alignment.weights.size > VECTOR_CELLS,
        )


def _labels(
    axes: Axes, labels: tuple[str, ...], side: Literal["x", "y"], size: Sizes
) -> list[Text]:
    axis = axes.xaxis if side == "x" else axes.yaxis
    shown = [drawable(label) for label in labels]
    # Labels are plain text, never mathematics: '$' stays '$'.
    axis.set_ticks([i + 0.5 for i in range(len(shown))], shown, parse_math=False)
    axes.tick_params(axis=side, length=0, pad=4, labelsize=size.label, labelcolor=INK)
    if side == "x":
        axes.xaxis.tick_top()
    texts = axis.get_ticklabels()
    for each, family in zip(texts, families(shown), strict=True):
        each.set_fontfamily(family)
    return texts


def _turn_unless_short(figure: Figure, texts: list[Text], size: Sizes) -> None:
    """If a label is longer than a cell, turn all labels except those that can be stacked."""
    long = max(_extents(figure, texts, 0), default=0.0) > 0.92 * size.cell
    upright = [stacked(each.get_text()) if long else each.get_text() for each in texts]
    shown = [
        each.get_text() if stands is None else stands
        for each, stands in zip(texts, upright, strict=True)
    ]
    figure.axes[0].xaxis.set_ticklabels(shown)
    for each, stands in zip(texts, upright, strict=True):
        if stands is None:
            each.set(
                rotation=90, rotation_mode="anchor", ha="left", va="center_baseline"
            )
        else:
            each.set(va=standing(stands), linespacing=1.0)


def _extents(figure: Figure, texts: list[Text], axis: int) -> list[float]:
    """The widths (axis 0) or heights (axis 1) of texts, in inches."""
    return [each.get_window_extent().size[axis] / figure.dpi for each in texts]


def axis_names(sides: tuple[str, str], *, own: bool) -> tuple[str, str]:
    """The names of the axis along the top and of that down the side: of one text that reads itself, or of two."""
    return (
        ("keys", "queries") if own else (f"{sides[0]} (keys)", f"{sides[1]} (queries)")
    )


def _arrange(
    figure: Figure,
    labels: tuple[list[Text], list[Text]],
    groups: Mapping[int, str],
    words: tuple[str, str, tuple[str, str], str],
    size: Sizes,
) -> Box:
    """Set the figure's size from its content and place every part, in inches. `words` are the title, a note below it,
    the names of the axes and the meanings of signs. Returns the box of the colour bar."""
    axes, (title, note, names, signs) = figure.axes[0], words
    gap = 4 / 72 + size.margin
    first = measured(figure, list(groups.values()), size.label)
    aside = max((each.width for each in first), default=-size.margin) + size.margin
    width, height = axes.get_xlim()[1] * size.cell, axes.get_ylim()[0] * size.cell
    left = NAME + aside + gap + max(_extents(figure, labels[1], 0), default=0.0)
    above = NAME + gap + max(_extents(figure, labels[0], 1), default=0.0)
    bar, foot = min(max(height, 0.9), 2.4), NAME if signs else 0.0
    (name,) = measured(figure, [f"← {names[1]}"], size.small)
    across = max(
        left + width + 3 * size.margin + size.bar + 0.45, LEAST if title else 0.0
    )
    heading = titled(
        figure, title, across - 2 * size.margin, *([note] if title else [])
    )
    head = heading.height + (size.margin if heading.height else 0.0)
    whole = across, head + above + max(height, bar, name.width) + size.margin + foot
    figure.set_size_inches(whole)
    base = whole[1] - head - above
    axes.set_position(share((left, base - height, width, height), whole))
    heading.draw(figure, size.margin, whole[1] - size.margin)
    style = {"size": size.small, "color": MUTED}
    text(
        figure,
        f"{names[0]} →",
        (left, base + above - size.margin / 2 - NAME / 2),
        **style,
    )
    side = size.margin + NAME / 2, base
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
        at = size.margin + NAME + size.margin / 2, base - (row + 0.5) * size.cell
        text(figure, word.label, at, size=size.label, color=MUTED, family=word.fonts)
    if signs:
        text(figure, signs, (size.margin, NAME / 2), **style)
    return share((left + width + 2 * size.margin, base - bar, size.bar, bar), whole)
