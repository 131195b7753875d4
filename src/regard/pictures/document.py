"""A document, its sentences shaded by their weights and the words inside by theirs (Yang 2016, figures 5 and 6)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.maps import DocumentWeights
from regard.pictures.fonts import families
from regard.pictures.labels import drawable
from regard.pictures.style import INK, MUTED, PAPER, hex_colour, plotting, sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, BEFORE = 7.6, 0.15, 0.75
"""Of the figure, of its edges, and of what stands before the words, in inches."""
LINE, GAP, SPACE, TYPE = 0.22, 0.1, 0.06, 9.0
"""The height of a line, what is between sentences and between words, in inches; the size of type, in points."""
DARK = 0.5
"""The shade from which on letters are light."""


@dataclass(frozen=True)
class Shades:
    """Between 0 and 1: weights as shares of the document's greatest. Those of words are weighed by the root of their
    sentence's, so that in a sentence that is hardly read they do not stand out, and yet are to be seen (section 3.4).

    sentences: (sentence,). words: for each sentence (word,).
    """

    sentences: np.ndarray
    words: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Word:
    """A label, the fonts to draw it with, and its width in inches."""

    label: str
    fonts: list[str]
    width: float


def shades(document: DocumentWeights) -> Shades:
    """Those of a document; all 0 where nothing is read."""
    tiny = np.finfo(float).tiny
    words = [np.sqrt(weight) * each for weight, each in zip(document.weights, document.words, strict=True)]
    greatest = max((each.max(initial=0.0) for each in words), default=0.0)
    of_sentences = document.weights / max(document.weights.max(initial=0.0), tiny)
    return Shades(of_sentences, tuple(each / max(greatest, tiny) for each in words))


def picture(document: DocumentWeights, *, title: str = "") -> Figure:
    """A figure of the whole text, each sentence behind its weight. The darkest are the sentence and the word that this
    document was read by most. Raises InputError without matplotlib, or where no installed font has a character."""
    with plotting():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        sentences = measured(figure, document.sentences)
        lines = [broken([word.width for word in words]) for words in sentences]
        head = 2 * LINE if title else LINE
        heights = [LINE * max(1, len(each)) + GAP for each in lines]
        top = 2 * MARGIN + head + sum(heights)
        figure.set_size_inches(WIDTH, top)
        _heading(figure, document, title, top - MARGIN)
        top -= MARGIN + head
        found = shades(document)
        for place, (words, rows) in enumerate(zip(sentences, lines, strict=True)):
            _weight(figure, document.weights[place], found.sentences[place], top)
            for number, row in enumerate(rows):
                _line(figure, [words[each] for each in row], found.words[place][row], top - number * LINE)
            top -= heights[place]
    return figure


def measured(figure: Figure, sentences: Sequence[Sequence[str]]) -> list[list[Word]]:
    """The words of each sentence as they are drawn."""
    from matplotlib.font_manager import FontProperties

    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue] that of the Agg canvas
    labels = [[drawable(word, longest=60) for word in words] for words in sentences]
    fonts = iter(families([label for words in labels for label in words]))
    found = []
    for words in labels:
        line = []
        for label, own in zip(words, fonts, strict=False):
            font = FontProperties(family=own, size=TYPE)
            width, _, _ = renderer.get_text_width_height_descent(label, font, ismath=False)
            line.append(Word(label, own, width / figure.dpi))
        found.append(line)
    return found


def broken(widths: Sequence[float]) -> list[list[int]]:
    """Which words share a line: as many as there is room for."""
    room, lines = 0.0, []
    for word, width in enumerate(widths):
        if width + SPACE > room:
            lines.append([])
            room = WIDTH - 2 * MARGIN - BEFORE
        lines[-1].append(word)
        room -= width + SPACE
    return lines


def _heading(figure: Figure, document: DocumentWeights, title: str, top: float) -> None:
    key = "before each sentence its weight; words shaded by theirs within it"
    if title:
        shown = drawable(title, longest=90)
        _text(figure, shown, (MARGIN, top - LINE / 2), size=sizes(1).title, color=INK, family=families([shown])[0])
        top -= LINE
    shown = key if document.sentences else "no sentence"
    _text(figure, shown, (MARGIN, top - LINE / 2), size=sizes(1).small, color=MUTED)


def _weight(figure: Figure, weight: float, shade: float, top: float) -> None:
    """A box with the weight of a sentence."""
    _box(figure, (MARGIN, top - LINE * 0.92, BEFORE - 0.2, LINE * 0.84), shade)
    place = MARGIN + (BEFORE - 0.2) / 2, top - LINE / 2
    _text(figure, f"{weight:.3f}", place, size=sizes(1).small, color=PAPER if shade > DARK else INK, ha="center")


def _line(figure: Figure, words: Sequence[Word], shade: np.ndarray, top: float) -> None:
    """Words of one line, from the right where their script is written so."""
    backwards = from_the_right("".join(word.label for word in words))
    across = WIDTH - MARGIN if backwards else MARGIN + BEFORE
    for word, each in zip(words, shade, strict=True):
        across -= (word.width + SPACE) if backwards else 0.0
        _box(figure, (across, top - LINE * 0.92, word.width + SPACE, LINE * 0.84), float(each))
        colour = PAPER if each > DARK else INK
        place = across + SPACE / 2, top - LINE / 2
        _text(figure, word.label, place, size=TYPE, color=colour, family=word.fonts)
        across += 0.0 if backwards else word.width + SPACE


def from_the_right(text: str) -> bool:
    """Whether the first letter that has a direction is written from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((each in ("R", "AL") for each in directions if each in ("L", "R", "AL")), False)


def _box(figure: Figure, box: tuple[float, float, float, float], shade: float) -> None:
    from matplotlib.patches import Rectangle

    left, bottom, width, height = box
    inches = figure.dpi_scale_trans
    figure.add_artist(Rectangle((left, bottom), width, height, facecolor=hex_colour(shade), transform=inches))


def _text(figure: Figure, text: str, place: tuple[float, float], **style: Any) -> None:
    """Text whose middle line is at a height, from a place across on."""
    inches = figure.dpi_scale_trans
    figure.text(*place, text, transform=inches, va="center_baseline", parse_math=False, **style)
