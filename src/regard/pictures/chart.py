"""Charts for experiments: lines, grids of numbers, and pairs of texts, side by side."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from regard.pictures.style import (
    COLORS,
    DARK,
    GRID,
    INK,
    MUTED,
    PAPER,
    color_map,
    plotting,
    resolution,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MARKS = "o", "s", "^", "D", "v", "P", "X", "*"
"""Markers distinguish the lines in grey too."""
DASHES = "-", "--", ":"
"""Dashes of further lines, when there are more lines than colours."""
LONG = 4.5
"""The length of a line's sample in the legend, in letters, so that its dashes are
visible."""
MOST_INSIDE = 3
"""The maximum of lines with their names inside a chart; more names are beside it."""
FEW = 3000
"""The ratio of the ends of a logarithmic axis up to which its numbers are written
out."""

Scales = tuple[Literal["linear", "log"], Literal["linear", "log"]]


@dataclass(frozen=True)
class Chart:
    """Lines by name, each with its points (x, y).

    Attributes:
        across: The most charts in a row.
        scales: Whether the axes are linear or logarithmic.
    """

    across: ClassVar[int] = 4
    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    scales: Scales = ("linear", "linear")


@dataclass(frozen=True)
class Grid:
    """Rows of cells by name: percentages, or numbers from 0 to `vmax`. Columns count from 0."""

    across: ClassVar[int] = 4
    title: str
    x: str
    rows: Mapping[str, Sequence[float]]
    vmax: float = 100.0


@dataclass(frozen=True)
class Pairs:
    """For each name the expected text, the text found, and a remark. `names` are the headings of the two."""

    across: ClassVar[int] = 2
    title: str
    x: str
    rows: Mapping[str, tuple[float, float]]
    remarks: Mapping[str, str]
    names: tuple[str, str] = ("expected", "found")


Part = Chart | Grid | Pairs


def charts(parts: Sequence[Part]) -> Figure:
    """Plot charts side by side.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: The list is empty.
    """
    if not parts:
        raise ValueError("charts() got no chart; expected at least one")
    columns = min(part.across for part in parts)
    rows = [parts[first : first + columns] for first in range(0, len(parts), columns)]
    beside = [
        [_names_beside(part, row[place + 1 :]) for place, part in enumerate(row)]
        for row in rows
    ]
    across = [
        max(6.4 if row[column] else 4.4 for row in beside if column < len(row))
        for column in range(len(rows[0]))
    ]
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(
            figsize=(sum(across), 3.6 * len(rows)),
            facecolor=PAPER,
            dpi=100,
            layout="constrained",
        )
        FigureCanvasAgg(figure)
        grid = figure.add_gridspec(len(rows), len(across), width_ratios=across)
        for place, part in enumerate(parts):
            row, column = divmod(place, columns)
            axes = figure.add_subplot(grid[row, column])
            _dress(axes, part.title, part.x)
            match part:
                case Chart():
                    _draw(axes, part, beside[row][column])
                case Grid():
                    _fill(axes, part)
                case Pairs():
                    _pair(axes, part)
    return figure


def _names_beside(part: Part, right: Sequence[Part]) -> bool:
    """Check whether a chart has its names beside it.

    A chart to its right with the same lines has them for both.
    """
    if not isinstance(part, Chart):
        return True
    repeated = any(
        isinstance(following, Chart)
        and [*following.lines][: len(part.lines)] == [*part.lines]
        for following in right[:1]
    )
    return len(part.lines) > MOST_INSIDE and not repeated


def _dress(axes: Axes, title: str, x: str) -> None:
    """Set the title and the axes that all charts have."""
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    axes.set_xlabel(x, fontsize=9, color=INK, parse_math=False)
    axes.tick_params(labelsize=8, labelcolor=MUTED, color=MUTED, length=3)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set(edgecolor=GRID, visible=name in ("left", "bottom"))


def _fill(axes: Axes, chart: Grid) -> None:
    values = [*chart.rows.values()]
    columns = max(map(len, values))
    cells = [[*row, *[math.nan] * (columns - len(row))] for row in values]
    axes.pcolormesh(
        cells,
        cmap=color_map(),
        vmin=0.0,
        vmax=chart.vmax,
        edgecolors=PAPER,
        linewidth=2,
    )
    for row, column in (
        (row, column)
        for row, row_values in enumerate(values)
        for column in range(len(row_values))
    ):
        value = values[row][column]
        colour = PAPER if value > DARK * chart.vmax else INK
        text = "–" if math.isnan(value) else f"{value:.3g}"
        axes.text(
            column + 0.5,
            row + 0.5,
            text,
            fontsize=8,
            color=colour,
            ha="center",
            va="center",
        )
    axes.set_xticks(
        [column + 0.5 for column in range(columns)],
        [str(column) for column in range(columns)],
    )
    axes.set_yticks(
        [row + 0.5 for row in range(len(values))], [*chart.rows], parse_math=False
    )
    axes.invert_yaxis()
    axes.grid(visible=False)


def _pair(axes: Axes, chart: Pairs) -> None:
    places = range(len(chart.rows))
    expected, actual = zip(*chart.rows.values(), strict=True)
    axes.hlines(places, expected, actual, color=MUTED, linewidth=1.2, zorder=2)
    ring = {
        "color": PAPER,
        "markeredgecolor": INK,
        "markersize": 7,
        "clip_on": False,
    }  # no marker is clipped at the edge
    axes.plot(expected, places, "o", zorder=3, label=chart.names[0], **ring)
    axes.plot(
        actual,
        places,
        "o",
        color=COLORS[1],
        markersize=5,
        zorder=4,
        label=chart.names[1],
        clip_on=False,
    )
    axes.set_yticks(places, [*chart.rows], fontsize=9, color=INK, parse_math=False)
    axes.set_xlim(
        min(0.0, *expected, *actual), 0.5 * math.ceil(2 * max(*expected, *actual) + 0.1)
    )
    axes.locator_params("x", nbins=6, steps=[1, 2, 5, 10])
    for place, name in enumerate(chart.rows):
        style = {
            "xytext": (6, 0),
            "textcoords": "offset points",
            "fontsize": 8,
            "color": INK,
            "va": "center",
        }
        axes.annotate(
            chart.remarks[name],
            (1, place),
            xycoords=("axes fraction", "data"),
            parse_math=False,
            **style,
        )
    axes.invert_yaxis()
    axes.legend(
        fontsize=8,
        frameon=False,
        labelcolor=INK,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=2,
    )


def _draw(axes: Axes, chart: Chart, beside: bool) -> None:
    for number, (name, points) in enumerate(chart.lines.items()):
        turn, place = divmod(number, len(COLORS))
        x, y = zip(*points, strict=True)
        (line,) = axes.plot(
            x,
            y,
            label=name,
            linewidth=1.6,
            color=COLORS[place],
            marker=MARKS[place],
            markersize=4.5,
        )
        line.set_linestyle(DASHES[turn % len(DASHES)])
    axes.set_xscale(chart.scales[0])
    axes.set_yscale(chart.scales[1])
    axes.set_ylabel(chart.y, fontsize=9, color=INK, parse_math=False)
    if chart.scales[0] == "linear" and all(
        x.is_integer() for line in chart.lines.values() for x, _ in line
    ):
        axes.locator_params("x", integer=True)
    for axis, scale in ((axes.xaxis, chart.scales[0]), (axes.yaxis, chart.scales[1])):
        if scale == "log":
            _name_numbers(axis)
    if beside or 1 < len(chart.lines) <= MOST_INSIDE:
        place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if beside else {}
        if len(chart.lines) > len(COLORS):
            place["handlelength"] = LONG
        axes.legend(fontsize=8, frameon=False, labelcolor=INK, **place)


def _name_numbers(axis: Axis) -> None:
    """Plain numbers instead of powers on a logarithmic axis of few decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low < FEW:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def png(parts: Sequence[Part]) -> bytes:
    """Return the content of a .png file; equal charts give equal bytes.

    Raises:
        InputError: As `charts`.
    """
    figure = charts(parts)
    content = io.BytesIO()
    with plotting():
        dots = resolution(*figure.get_size_inches())
        figure.savefig(content, format="png", dpi=dots, metadata={"Software": None})
    return content.getvalue()
