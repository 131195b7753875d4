"""Attention as lines between two copies of the text, one colour per head (Vaswani 2017, figures 3 to 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.pictures.inches import Word, measured, sheet, text
from regard.pictures.labels import meanings
from regard.pictures.style import COLOURS, INK, MUTED, plotting, sizes
from regard.pictures.title import LEAST, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN, ROW, GAP, LINE, TYPE = 0.15, 0.21, 2.4, 0.2, 9.0
"""The margin, the height of a piece, the gap between the copies and the height of a line above them, in inches; the
type size in points."""
STYLES = "-", (0, (3, 1.5))
"""Line styles: solid for the first heads, one colour each, then dashed with the same colours."""
MOST = len(COLOURS) * len(STYLES)
WIDEST, FAINTEST = 3.6, 0.3
"""The width in points at weight 1; the opacity at weight 0."""
SAMPLE, ENTRY = 0.3, 1.6
"""A sample line of the legend, and the width of an entry, in inches."""


def lines(
    weights: Float[np.ndarray, "head target source"],
    source: Sequence[str],
    target: Sequence[str],
    names: Sequence[str],
    *,
    threshold: float = 0.15,
    title: str = "",
) -> Figure:
    """A figure with targets at the left and sources at the right. A line's width and opacity grow with its weight.
    Weights below `threshold` have no line, and the picture notes the threshold.

    Raises InputError for more than `MOST` heads, without matplotlib, or if no installed font has a character."""
    if len(weights) > MOST:
        raise InputError(
            f"{len(weights)} heads are too many for lines; choose at most {MOST}"
        )
    with plotting():
        figure = sheet()
        readers, read = (measured(figure, labels, TYPE) for labels in (target, source))
        note = f"a line is as wide as its weight; weights under {threshold:g} have none"
        note += "" if (weights >= threshold).any() else ", and no weight is larger"
        sides = [
            max((word.width for word in side), default=0.2) for side in (readers, read)
        ]
        width = max(2 * MARGIN + max(sum(sides) + GAP, 2 * ENTRY), LEAST)
        heading = titled(
            figure, title, width - 2 * MARGIN, note, meanings(source, target)
        )
        entries = max(1, int((width - 2 * MARGIN) / ENTRY))
        head = heading.height + LINE * -(-len(names) // entries)
        tall = ROW * max(len(source), len(target), 1)
        top = MARGIN + tall + LINE
        figure.set_size_inches(width, top + head + MARGIN)
        left = (width - sum(sides) - GAP) / 2 + sides[0]
        _legend(figure, names, entries, heading.draw(figure, MARGIN, top + head))
        _side(figure, ["target (queries)", *readers], left, "right", top)
        _side(figure, ["source (keys)", *read], left + GAP, "left", top)
        _draw(figure, weights, threshold, (left, left + GAP), top - LINE)
    return figure


def _legend(figure: Figure, names: Sequence[str], entries: int, top: float) -> None:
    """Draw the legend, with `entries` entries per line."""
    for number, name in enumerate(names):
        row, column = divmod(number, entries)
        left, middle = MARGIN + ENTRY * column, top - LINE * (row + 0.5)
        _lines(figure, [((left, middle), (left + SAMPLE, middle))], [1.0], number)
        text(
            figure, name, (left + SAMPLE + 0.06, middle), size=sizes(1).small, color=INK
        )


def _side(
    figure: Figure, words: Sequence[Word | str], across: float, side: str, top: float
) -> None:
    """Draw one copy of the text below its heading."""
    away = -0.06 if side == "right" else 0.06
    for number, word in enumerate(words):
        middle = top - LINE / 2 if number == 0 else top - LINE - ROW * (number - 0.5)
        if isinstance(word, str):
            text(
                figure,
                word,
                (across + away, middle),
                size=sizes(1).small,
                color=MUTED,
                ha=side,
            )
        else:
            text(
                figure,
                word.label,
                (across + away, middle),
                size=TYPE,
                color=INK,
                ha=side,
                family=word.fonts,
            )


def _draw(
    figure: Figure,
    weights: Float[np.ndarray, "head target source"],
    threshold: float,
    across: tuple[float, float],
    top: float,
) -> None:
    """Draw the lines of each head. Lines from one piece start at different heights."""
    spread = ROW * 0.6 / max(len(weights), 1)
    for head, each in enumerate(weights):
        down = ROW / 2 + spread * (head - (len(weights) - 1) / 2)
        found = [
            (int(t), int(s))
            for t, s in np.argwhere(each >= threshold)
            if each[t, s] > 0
        ]
        found.sort(key=lambda pair, each=each: each[pair])
        ends = [
            ((across[0], top - ROW * t - down), (across[1], top - ROW * s - down))
            for t, s in found
        ]
        _lines(figure, ends, [float(each[pair]) for pair in found], head)


def _lines(
    figure: Figure, ends: Sequence[tuple], weights: Sequence[float], head: int
) -> None:
    """Draw the lines of one head, the greatest weight last and thus on top."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    colour, style = (
        COLOURS[head % len(COLOURS)],
        STYLES[head // len(COLOURS) % len(STYLES)],
    )
    shown = [min(weight, 1.0) for weight in weights]
    figure.add_artist(
        LineCollection(
            list(ends),
            colors=[
                to_rgba(colour, FAINTEST + (1 - FAINTEST) * weight) for weight in shown
            ],
            linewidths=[WIDEST * weight for weight in shown],
            linestyles=[style],
            capstyle="round" if style == "-" else "butt",
            transform=figure.dpi_scale_trans,
        )
    )
