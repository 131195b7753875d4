"""The text once per target, shaded by that target's attention (Cheng 2016, figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.errors import InputError
from regard.maps.alignment import Alignment
from regard.pictures.document import GAP, LINE, MARGIN, SPACE, TYPE, WIDTH, broken, line
from regard.pictures.inches import from_the_right, measured, sheet, text
from regard.pictures.labels import drawable, meanings
from regard.pictures.scale import colour_bar, share
from regard.pictures.style import INK, plotting
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 18
"""The maximum of letters drawn of a target."""
LEAST = 5.2
"""The minimum width of the figure, in inches."""
BAR = 1.0, 0.09
"""The sides of the colour bar, in inches."""
MOST = 6_000
"""The maximum of pieces in all rows together."""
KEY = "each row: a target (query), and the source (keys) shaded by its weights"


def reading(
    alignment: Alignment,
    *,
    title: str = "",
    most: float = 1.0,
    first: int | None = None,
) -> Figure:
    """A figure with one row per target: its label, then the whole text, shaded from white at 0 to dark at `most` by the
    weights. For self-attention, `first` is the position of the first row's target in the text, and each target is
    framed at its position.

    Raises InputError for more than `MOST` pieces, without matplotlib, or if no installed font has a character."""
    _check(alignment)
    with plotting():
        figure = sheet()
        readers = measured(
            figure,
            [drawable(label, longest=LONGEST) for label in alignment.target],
            TYPE,
        )
        words = measured(figure, alignment.source, TYPE)
        before = max((word.width for word in readers), default=0.0) + 0.15
        needed = before + sum(word.width + SPACE for word in words)
        room = min(WIDTH, max(LEAST, 2 * MARGIN + needed + SPACE))
        lines = broken([word.width for word in words], room - 2 * MARGIN - before)
        step = LINE * max(1, len(lines)) + GAP
        signs = meanings(alignment.source, alignment.target)
        heading = titled(figure, title, room - 2 * MARGIN, KEY, signs)
        head = heading.height + 2.5 * BAR[1] + GAP
        height = 2 * MARGIN + head + step * len(readers)
        figure.set_size_inches(room, height)
        bar = MARGIN, heading.draw(figure, MARGIN, height - MARGIN) - BAR[1], *BAR
        above = bool((alignment.weights > most + 1e-6).any())
        colour_bar(figure, share(bar, (room, height)), most=most, above=above)
        backwards = from_the_right("".join(alignment.source))
        edges = (
            (MARGIN, room - MARGIN - before)
            if backwards
            else (MARGIN + before, room - MARGIN)
        )
        beside, aligned = (
            (edges[1] + 0.12, "left") if backwards else (edges[0] - 0.12, "right")
        )
        for number, shades in enumerate(np.minimum(alignment.weights / most, 1.0)):
            top, reader = height - MARGIN - head - step * number, readers[number]
            text(
                figure,
                reader.label,
                (beside, top - LINE / 2),
                size=TYPE,
                color=INK,
                ha=aligned,
                family=reader.fonts,
            )
            for row, part in enumerate(lines):
                framed = (
                    part.index(first + number)
                    if first is not None and first + number in part
                    else None
                )
                shown, at = [words[each] for each in part], top - row * LINE
                line(
                    figure,
                    shown,
                    shades[part],
                    edges,
                    at,
                    backwards=backwards,
                    framed=framed,
                )
    return figure


def _check(alignment: Alignment) -> None:
    rows, columns = alignment.weights.shape
    if rows * columns > MOST:
        raise InputError(
            f"{rows} rows of {columns} pieces are {rows * columns:,}; at most {MOST:,} are drawn: choose rows, or a "
            "part of the text"
        )
