"""Charts for experiments: lines and grids of numbers, side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from regard.pictures.canvas import (
    COLORS,
    DARK,
    INK,
    PAPER,
    TITLE_TYPE,
    color_map,
    plotting,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MARKS = "o", "s", "^", "D", "v", "P", "X", "*"
"""Markers distinguish the lines in grey too."""
DASHES = "-", "--", ":"
"""Dashes of further lines, when there are more lines than colors."""
MAX_COLUMNS = 4
"""The maximum of charts in a row."""
LONG = 4.5
"""The length of a line's sample in the legend, in letters, so that its dashes are
visible."""
MAX_INSIDE = 3
"""The maximum of lines with their names inside a chart; more names are beside it."""
MAX_RATIO = 3000
"""The ratio of the ends of a logarithmic axis up to which it has several numbers in a
decade."""

Scales = tuple[Literal["linear", "log"], Literal["linear", "log"]]


@dataclass(frozen=True)
class Chart:
    """Lines by name, each with its points (x, y).

    Attributes:
        scales: Whether the axes are linear or logarithmic.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    scales: Scales = ("linear", "linear")

    def plot(self, axes: Axes) -> None:
        """Draw the lines, and their legend inside or, of many, beside the chart."""
        for index, (name, points) in enumerate(self.lines.items()):
            turn, place = divmod(index, len(COLORS))
            axes.plot(
                *zip(*points, strict=True),
                label=name,
                color=COLORS[place],
                marker=MARKS[place],
                markersize=4.5,
                linestyle=DASHES[turn % len(DASHES)],
            )
        x_scale, y_scale = self.scales
        axes.set(xscale=x_scale, yscale=y_scale)
        axes.set_ylabel(self.y, size=9, color=INK)
        if x_scale == "linear":
            numbers = [x for line in self.lines.values() for x, _ in line]
            if all(map(float.is_integer, numbers)):
                axes.locator_params("x", integer=True)
        else:
            _write_numbers(axes.xaxis)
        if y_scale == "log":
            _write_numbers(axes.yaxis)
        count = len(self.lines)
        if count > MAX_INSIDE:
            axes.legend(
                handlelength=LONG if count > len(COLORS) else 2.0,
                loc="upper left",
                bbox_to_anchor=(1.0, 1.0),
            )
        elif count > 1:
            axes.legend()


@dataclass(frozen=True)
class Grid:
    """Rows of cells by name: percentages, or numbers from 0 to `vmax`."""

    title: str
    x: str
    rows: Mapping[str, Sequence[float]]
    vmax: float = 100.0

    def plot(self, axes: Axes) -> None:
        """Draw the cells with their numbers; a cell without one has a dash.

        Columns count from 0.
        """
        count = max(map(len, self.rows.values()))
        cells = np.full((len(self.rows), count), math.nan)
        for cell_row, values in zip(cells, self.rows.values(), strict=True):
            cell_row[: len(values)] = values
        style = {"size": 8, "ha": "center", "va": "center"}
        for (row, column), value in np.ndenumerate(cells):
            text = "–" if math.isnan(value) else f"{value:.3g}"
            color = PAPER if value > DARK * self.vmax else INK
            axes.text(column + 0.5, row + 0.5, text, color=color, **style)
        scale = {"cmap": color_map(), "vmin": 0.0, "vmax": self.vmax}
        axes.pcolormesh(cells, edgecolors=PAPER, linewidth=2, **scale)
        axes.set_xticks(np.arange(count) + 0.5, map(str, range(count)))
        axes.set_yticks(np.arange(len(cells)) + 0.5, self.rows)
        axes.invert_yaxis()
        axes.grid(visible=False)


Part = Chart | Grid


def charts(parts: Sequence[Part]) -> Figure:
    """Plot charts side by side.

    Raises:
        InputError: matplotlib is not installed.
    """
    columns = min(len(parts), MAX_COLUMNS)
    rows = -(-len(parts) // columns)
    with plotting():
        from matplotlib.figure import Figure

        size = 5.4 * columns, 3.6 * rows
        figure = Figure(size, facecolor=PAPER, dpi=100, layout="constrained")
        for index, part in enumerate(parts):
            axes = figure.add_subplot(rows, columns, index + 1)
            axes.set_title(part.title, size=TITLE_TYPE)
            axes.set_xlabel(part.x, size=9, color=INK)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid()
            axes.set_axisbelow(True)
            part.plot(axes)
    return figure


def _write_numbers(axis: Axis) -> None:
    """Write plain numbers instead of powers on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high / low < MAX_RATIO:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
