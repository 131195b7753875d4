"""A text shaded by the weight of each of its parts, with two colours where these have a sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError
from regard.maps.text import TextWeights
from regard.pictures.inches import Word, from_the_right, measured, order, sheet, text
from regard.pictures.scale import colour_bar, nearly_even, rounded_end, share
from regard.pictures.style import DARK, INK, MUTED, PAPER, diverging, plotting, sizes
from regard.pictures.title import DETAIL, titled, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, LINE, SPACE, GAP, TYPE = 6.4, 0.15, 0.3, 0.075, 0.16, 11.0
"""The width of the figure, its margins, the height of a line, the space between words and between texts, in inches; the
type size in points."""
BAR = 1.6, 0.1, 0.34
"""The sides of the colour bar, and the room for it with its numbers, in inches."""
KEY = MARGIN + BAR[0] + 0.2
"""The left edge of the meaning of the colours, in inches."""
MOST = 6_000
"""The maximum of parts."""
NO_WORD = "nearly even: the model prefers no word"


def shaded(found: TextWeights, *, title: str = "") -> Figure:
    """A figure of the text. White is 0; the darkest colour is the greatest magnitude or, if that is more, four times an
    even share: blue for the output, and orange against it.

    Raises InputError for more than `MOST` parts, without matplotlib, or if no installed font has a character."""
    if len(found.labels) > MOST:
        raise InputError(
            f"the text has {len(found.labels):,} words; at most {MOST:,} are drawn: give a part of it"
        )
    most, note = (
        rounded_end(found.weights),
        NO_WORD if nearly_even(found.weights) else "",
    )
    with plotting():
        figure = sheet()
        words = measured(figure, found.labels, TYPE)
        heading = titled(figure, title, WIDTH - 2 * MARGIN, note)
        rows = _rows(found, words)
        means = wrapped(figure, meaning(found), sizes(1).small, WIDTH - KEY - MARGIN)
        key = max(BAR[2], DETAIL * len(means) + 0.08)
        height = (
            2 * MARGIN
            + heading.height
            + key
            + LINE * len(rows)
            + GAP * max(0, len(set(found.texts)) - 1)
        )
        figure.set_size_inches(WIDTH, height)
        top = heading.draw(figure, MARGIN, height - MARGIN)
        colour_bar(
            figure,
            share((MARGIN, top - BAR[1], *BAR[:2]), (WIDTH, height)),
            most=most,
            least=-most if found.signed else 0.0,
        )
        for row, word in enumerate(means):
            place = KEY, top - BAR[1] / 2 - DETAIL * row
            text(
                figure,
                word.label,
                place,
                size=sizes(1).small,
                color=MUTED,
                family=word.fonts,
            )
        top -= key
        before = found.texts[0] if found.texts else 0
        for row in rows:
            top -= GAP if found.texts[row[0]] != before else 0.0
            before = found.texts[row[0]]
            _line(figure, found, words, row, top, most)
            top -= LINE
    return figure


def _rows(found: TextWeights, words: Sequence[Word]) -> list[list[int]]:
    """The parts of each line; each text begins a new one."""
    rows: list[list[int]] = []
    room = 0.0
    for place, word in enumerate(words):
        needed = word.width + (0.0 if found.glued[place] else SPACE)
        if not rows or found.texts[place] != found.texts[rows[-1][-1]] or needed > room:
            rows.append([])
            room, needed = WIDTH - 2 * MARGIN, word.width
        rows[-1].append(place)
        room -= needed
    return rows


def meaning(found: TextWeights) -> str:
    """What the colours and the frames of a text mean."""
    means = (
        "weight of a word: the mean of its pieces"
        if found.averaged
        else "share of each word"
    )
    if found.signed:
        means += (
            f"{';' if found.averaged else ':'} blue for {found.name}, orange against it"
        )
    if found.framed:
        means += f"; framed: {found.name}"
    return means


def _line(
    figure: Figure,
    found: TextWeights,
    words: Sequence[Word],
    row: Sequence[int],
    top: float,
    most: float,
) -> None:
    """Draw one line, a right-to-left one from the right."""
    backwards = from_the_right("".join(words[place].label for place in row))
    across = WIDTH - MARGIN if backwards else MARGIN
    sequence = (
        [row[each] for each in order([words[each].label for each in row])]
        if backwards
        else row
    )
    frames: list[list[float]] = []
    for number, place in enumerate(sequence):
        word, value = words[place], float(np.clip(found.weights[place] / most, -1, 1))
        gap = SPACE if number and not found.glued[place] else 0.0
        across -= gap + word.width if backwards else -gap
        _box(
            figure,
            across,
            word.width,
            top,
            facecolor=diverging()[255 + round(255 * value)] / 255,
        )
        colour = PAPER if abs(value) > DARK else INK
        text(
            figure,
            word.label,
            (across, top - LINE * 0.48),
            size=TYPE,
            color=colour,
            family=word.fonts,
        )
        if place in found.framed:
            if not number or sequence[number - 1] not in found.framed:
                frames.append([])
            frames[-1] += [across, across + word.width]
        across += 0.0 if backwards else word.width
    for each in frames:
        _box(
            figure,
            min(each),
            max(each) - min(each),
            top,
            fill=False,
            edgecolor=INK,
            linewidth=1.2,
            zorder=3,
        )


def _box(figure: Figure, left: float, width: float, top: float, **style: Any) -> None:
    """A rectangle a little wider than its words, as tall as a line whose upper edge is `top`."""
    from matplotlib.patches import Rectangle

    at = left - SPACE / 2, top - LINE * 0.88
    figure.add_artist(
        Rectangle(
            at, width + SPACE, LINE * 0.8, transform=figure.dpi_scale_trans, **style
        )
    )
