"""A document with its sentences shaded by their weights and its words by theirs (Yang 2016, figures 5 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from regard.maps import DocumentWeights
from regard.pictures.inches import (
    Word,
    box,
    from_the_right,
    measured,
    order,
    sheet,
    text,
)
from regard.pictures.style import DARK, INK, PAPER, plotting, sizes
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, BEFORE = 7.6, 0.15, 0.75
"""The width of the figure and of its margins, and the space before the words, in inches."""
EDGES = MARGIN + BEFORE, WIDTH - MARGIN
"""The left and right edge of the words, in inches."""
LINE, GAP, SPACE, TYPE = 0.22, 0.1, 0.06, 9.0
"""The height of a line, the space between sentences and between words, in inches; the type size in points."""


@dataclass(frozen=True)
class Shades:
    """Shades from 0 to 1: weights divided by the document's greatest. Word weights are multiplied by the root of their
    sentence's weight, so that words of weakly attended sentences are faint but visible (section 3.4).

    sentences: (sentence,).
    words: (word,) for each sentence.
    most: the weights with shade 1, of a sentence and of a word.
    """

    sentences: np.ndarray
    words: tuple[np.ndarray, ...]
    most: tuple[float, float]


def shades(document: DocumentWeights) -> Shades:
    """The shades of a document; all 0 if all weights are 0."""
    tiny = np.finfo(float).tiny
    words = [
        np.sqrt(weight) * each
        for weight, each in zip(document.weights, document.words, strict=True)
    ]
    greatest = max((each.max(initial=0.0) for each in words), default=0.0)
    most = float(document.weights.max(initial=0.0)), float(greatest)
    of_sentences = document.weights / max(most[0], tiny)
    return Shades(
        of_sentences, tuple(each / max(most[1], tiny) for each in words), most
    )


def picture(document: DocumentWeights, *, title: str = "") -> Figure:
    """A figure of the whole text, each sentence after its weight. The sentence and the word with the greatest weight
    are darkest. Raises InputError without matplotlib, or if no installed font has a character."""
    with plotting():
        figure = sheet()
        words = iter(
            measured(
                figure, [word for words in document.sentences for word in words], TYPE
            )
        )
        sentences = [[next(words) for _ in each] for each in document.sentences]
        lines = [broken([word.width for word in each]) for each in sentences]
        found = shades(document)
        key = _key(document, found)
        heading = titled(figure, title, WIDTH - 2 * MARGIN, *key)
        head = heading.height
        heights = [LINE * max(1, len(each)) + GAP for each in lines]
        top = 2 * MARGIN + head + sum(heights)
        figure.set_size_inches(WIDTH, top)
        heading.draw(figure, MARGIN, top - MARGIN)
        top -= MARGIN + head
        for place, (words, rows) in enumerate(zip(sentences, lines, strict=True)):
            _weight(figure, document.weights[place], found.sentences[place], top)
            for number, row in enumerate(rows):
                part, shade = [words[each] for each in row], found.words[place][row]
                backwards = from_the_right("".join(word.label for word in part))
                line(
                    figure, part, shade, EDGES, top - number * LINE, backwards=backwards
                )
            top -= heights[place]
    return figure


def broken(
    widths: Sequence[float], most: float = EDGES[1] - EDGES[0]
) -> list[list[int]]:
    """The indices of the words of each line, filled up to `most` inches."""
    room, lines = 0.0, []
    for word, width in enumerate(widths):
        if width + SPACE > room:
            lines.append([])
            room = most
        lines[-1].append(word)
        room -= width + SPACE
    return lines


def _key(document: DocumentWeights, found: Shades) -> tuple[str, ...]:
    """The legend: the meaning of the shades, and the darkest sentence and word."""
    if not document.sentences:
        return ("no sentence",)
    return (
        f"before each sentence its weight: white 0, darkest {found.most[0]:.3g}",
        f"words: weight within the sentence × root of the sentence's weight: white 0, darkest {found.most[1]:.3g}",
    )


def _weight(figure: Figure, weight: float, shade: float, top: float) -> None:
    """A box with the weight of a sentence."""
    box(figure, (MARGIN, top - LINE * 0.92, BEFORE - 0.2, LINE * 0.84), shade)
    place = MARGIN + (BEFORE - 0.2) / 2, top - LINE / 2
    text(
        figure,
        f"{weight:.3f}",
        place,
        size=sizes(1).small,
        color=PAPER if shade > DARK else INK,
        ha="center",
    )


def line(
    figure: Figure,
    words: Sequence[Word],
    shade: np.ndarray,
    edges: tuple[float, float],
    top: float,
    *,
    backwards: bool,
    framed: int | None = None,
) -> None:
    """Draw the words of one line between a left and a right edge, `backwards` from the right. One word may be
    framed."""
    across = edges[1] if backwards else edges[0]
    for number in (
        order([word.label for word in words]) if backwards else range(len(words))
    ):
        word, each = words[number], shade[number]
        across -= (word.width + SPACE) if backwards else 0.0
        edge = (
            {"edgecolor": INK, "linewidth": 1.0, "zorder": 2}
            if number == framed
            else {}
        )
        box(
            figure,
            (across, top - LINE * 0.92, word.width + SPACE, LINE * 0.84),
            float(each),
            **edge,
        )
        colour = PAPER if each > DARK else INK
        at = across + SPACE / 2, top - LINE / 2
        text(figure, word.label, at, size=TYPE, color=colour, family=word.fonts)
        across += 0.0 if backwards else word.width + SPACE
