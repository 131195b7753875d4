"""Text shaded by its weights: a document, a text once per target, a text with signed weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError
from regard.maps import DocumentWeights
from regard.maps.alignment import Alignment, TextWeights
from regard.pictures.style import (
    DARK,
    INK,
    MUTED,
    PAPER,
    add_color_bar,
    choose_sizes,
    diverging,
    is_nearly_uniform,
    plotting,
    round_scale_end,
    to_fractions,
)
from regard.pictures.text import (
    DETAIL,
    Word,
    draw_box,
    draw_text,
    explain_signs,
    is_right_to_left,
    layout_title,
    measure,
    new_figure,
    shorten,
    visual_order,
    wrap,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, BEFORE = 7.6, 0.15, 0.75
"""The width of the figure and of its margins, and the space before the words, in
inches."""
EDGES = MARGIN + BEFORE, WIDTH - MARGIN
"""The left and right edge of the words, in inches."""
LINE, GAP, SPACE, TYPE = 0.22, 0.1, 0.06, 9.0
"""The height of a line, the space between sentences and between words, in inches; the
type size in points."""


@dataclass(frozen=True)
class Shades:
    """Shades from 0 to 1: weights divided by the document's greatest.

    Word weights are multiplied by the root of their sentence's weight, so that words of
    weakly attended sentences are faint but visible (section 3.4).

    Attributes:
        sentences: (sentence,).
        words: (word,) for each sentence.
        maxima: The weights with shade 1, of a sentence and of a word.
    """

    sentences: np.ndarray
    words: tuple[np.ndarray, ...]
    maxima: tuple[float, float]


def compute_shades(document: DocumentWeights) -> Shades:
    """Compute the shades of a document; all 0 if all weights are 0."""
    tiny = np.finfo(float).tiny
    words = [
        np.sqrt(weight) * row
        for weight, row in zip(document.weights, document.words, strict=True)
    ]
    greatest = max((row.max(initial=0.0) for row in words), default=0.0)
    maxima = float(document.weights.max(initial=0.0)), float(greatest)
    of_sentences = document.weights / max(maxima[0], tiny)
    return Shades(
        of_sentences, tuple(row / max(maxima[1], tiny) for row in words), maxima
    )


def draw_document(document: DocumentWeights, *, title: str = "") -> Figure:
    """Plot the text of a document, each sentence after its weight.

    The sentence and the word with the greatest weight are darkest.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    with plotting():
        figure = new_figure()
        words = iter(
            measure(
                figure, [word for words in document.sentences for word in words], TYPE
            )
        )
        sentences = [[next(words) for _ in item] for item in document.sentences]
        lines = [break_lines([word.width for word in item]) for item in sentences]
        result = compute_shades(document)
        key = _explain_shades(document, result)
        heading = layout_title(figure, title, WIDTH - 2 * MARGIN, *key)
        head = heading.height
        heights = [LINE * max(1, len(item)) + GAP for item in lines]
        top = 2 * MARGIN + head + sum(heights)
        figure.set_size_inches(WIDTH, top)
        heading.draw(figure, MARGIN, top - MARGIN)
        top -= MARGIN + head
        for place, (words, rows) in enumerate(zip(sentences, lines, strict=True)):
            _draw_weight(figure, document.weights[place], result.sentences[place], top)
            for number, row in enumerate(rows):
                part, shade = [words[item] for item in row], result.words[place][row]
                backwards = is_right_to_left("".join(word.label for word in part))
                draw_line(
                    figure, part, shade, EDGES, top - number * LINE, backwards=backwards
                )
            top -= heights[place]
    return figure


def break_lines(
    widths: Sequence[float], width_limit: float = EDGES[1] - EDGES[0]
) -> list[list[int]]:
    """Return the indices of the words of each line of limited width."""
    room, lines = 0.0, []
    for word, width in enumerate(widths):
        if width + SPACE > room:
            lines.append([])
            room = width_limit
        lines[-1].append(word)
        room -= width + SPACE
    return lines


def _explain_shades(document: DocumentWeights, shades: Shades) -> tuple[str, ...]:
    """Return the legend: the meaning of the shades, and the darkest ones."""
    if not document.sentences:
        return ("no sentence",)
    return (
        f"before each sentence its weight: white 0, darkest {shades.maxima[0]:.3g}",
        f"words: weight within the sentence × root of the sentence's weight: white 0, darkest {shades.maxima[1]:.3g}",
    )


def _draw_weight(figure: Figure, weight: float, shade: float, top: float) -> None:
    """Draw a box with the weight of a sentence."""
    draw_box(figure, (MARGIN, top - LINE * 0.92, BEFORE - 0.2, LINE * 0.84), shade)
    place = MARGIN + (BEFORE - 0.2) / 2, top - LINE / 2
    draw_text(
        figure,
        f"{weight:.3f}",
        place,
        size=choose_sizes(1).small,
        color=PAPER if shade > DARK else INK,
        ha="center",
    )


def draw_line(
    figure: Figure,
    words: Sequence[Word],
    shade: np.ndarray,
    edges: tuple[float, float],
    top: float,
    *,
    backwards: bool,
    framed: int | None = None,
) -> None:
    """Draw the words of one line between two edges, one of them framed.

    A `backwards` line begins at the right.
    """
    across = edges[1] if backwards else edges[0]
    for number in (
        visual_order([word.label for word in words]) if backwards else range(len(words))
    ):
        word, shade_of_word = words[number], shade[number]
        across -= (word.width + SPACE) if backwards else 0.0
        edge = (
            {"edgecolor": INK, "linewidth": 1.0, "zorder": 2}
            if number == framed
            else {}
        )
        draw_box(
            figure,
            (across, top - LINE * 0.92, word.width + SPACE, LINE * 0.84),
            float(shade_of_word),
            **edge,
        )
        colour = PAPER if shade_of_word > DARK else INK
        at = across + SPACE / 2, top - LINE / 2
        draw_text(figure, word.label, at, size=TYPE, color=colour, family=word.fonts)
        across += 0.0 if backwards else word.width + SPACE


if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT_WIDTH, TEXT_MARGIN, TEXT_LINE, TEXT_SPACE, TEXT_GAP, TEXT_TYPE = (
    6.4,
    0.15,
    0.3,
    0.075,
    0.16,
    11.0,
)
"""The width of the figure, its margins, the height of a line, the space between words
and between texts, in inches; the type size in points."""
TEXT_BAR = 1.6, 0.1, 0.34
"""The sides of the colour bar, and the room for it with its numbers, in inches."""
TEXT_KEY = TEXT_MARGIN + TEXT_BAR[0] + 0.2
"""The left edge of the meaning of the colours, in inches."""
MAX_PARTS = 6_000
"""The maximum of parts."""
NO_WORD = "nearly even: the model prefers no word"


def draw_shaded_text(text: TextWeights, *, title: str = "") -> Figure:
    """Plot a text shaded by its weights.

    White is 0; the darkest color is the greatest magnitude or, if that is more, four
    times a uniform share: blue for the output, and orange against it.

    Raises:
        InputError: There are too many parts, matplotlib is not installed, or no
            installed font has a character.
    """
    if len(text.labels) > MAX_PARTS:
        raise InputError(
            f"the text has {len(text.labels):,} words; at most {MAX_PARTS:,} are drawn: give a part of it"
        )
    vmax, note = (
        round_scale_end(text.weights),
        NO_WORD if is_nearly_uniform(text.weights) else "",
    )
    with plotting():
        figure = new_figure()
        words = measure(figure, text.labels, TEXT_TYPE)
        heading = layout_title(figure, title, TEXT_WIDTH - 2 * TEXT_MARGIN, note)
        rows = _split_into_lines(text, words)
        means = wrap(
            figure,
            explain_colors(text),
            choose_sizes(1).small,
            TEXT_WIDTH - TEXT_KEY - TEXT_MARGIN,
        )
        key = max(TEXT_BAR[2], DETAIL * len(means) + 0.08)
        height = (
            2 * TEXT_MARGIN
            + heading.height
            + key
            + TEXT_LINE * len(rows)
            + TEXT_GAP * max(0, len(set(text.texts)) - 1)
        )
        figure.set_size_inches(TEXT_WIDTH, height)
        top = heading.draw(figure, TEXT_MARGIN, height - TEXT_MARGIN)
        add_color_bar(
            figure,
            to_fractions(
                (TEXT_MARGIN, top - TEXT_BAR[1], *TEXT_BAR[:2]), (TEXT_WIDTH, height)
            ),
            vmax=vmax,
            vmin=-vmax if text.signed else 0.0,
        )
        for row, word in enumerate(means):
            place = TEXT_KEY, top - TEXT_BAR[1] / 2 - DETAIL * row
            draw_text(
                figure,
                word.label,
                place,
                size=choose_sizes(1).small,
                color=MUTED,
                family=word.fonts,
            )
        top -= key
        before = text.texts[0] if text.texts else 0
        for row in rows:
            top -= TEXT_GAP if text.texts[row[0]] != before else 0.0
            before = text.texts[row[0]]
            _draw_parts(figure, text, words, row, top, vmax)
            top -= TEXT_LINE
    return figure


def _split_into_lines(text: TextWeights, words: Sequence[Word]) -> list[list[int]]:
    """Return the parts of each line; each text begins a new one."""
    rows: list[list[int]] = []
    room = 0.0
    for place, word in enumerate(words):
        needed = word.width + (0.0 if text.glued[place] else TEXT_SPACE)
        if not rows or text.texts[place] != text.texts[rows[-1][-1]] or needed > room:
            rows.append([])
            room, needed = TEXT_WIDTH - 2 * TEXT_MARGIN, word.width
        rows[-1].append(place)
        room -= needed
    return rows


def explain_colors(text: TextWeights) -> str:
    """Explain the colors and the frames of a text."""
    means = (
        "weight of a word: the mean of its pieces"
        if text.averaged
        else "share of each word"
    )
    if text.signed:
        means += (
            f"{';' if text.averaged else ':'} blue for {text.name}, orange against it"
        )
    if text.framed:
        means += f"; framed: {text.name}"
    return means


def _draw_parts(
    figure: Figure,
    text: TextWeights,
    words: Sequence[Word],
    row: Sequence[int],
    top: float,
    vmax: float,
) -> None:
    """Draw one line, a right-to-left one from the right."""
    backwards = is_right_to_left("".join(words[place].label for place in row))
    across = TEXT_WIDTH - TEXT_MARGIN if backwards else TEXT_MARGIN
    sequence = (
        [row[index] for index in visual_order([words[index].label for index in row])]
        if backwards
        else row
    )
    frames: list[list[float]] = []
    for number, place in enumerate(sequence):
        word, value = words[place], float(np.clip(text.weights[place] / vmax, -1, 1))
        gap = TEXT_SPACE if number and not text.glued[place] else 0.0
        across -= gap + word.width if backwards else -gap
        _draw_box(
            figure,
            across,
            word.width,
            top,
            facecolor=diverging()[255 + round(255 * value)] / 255,
        )
        colour = PAPER if abs(value) > DARK else INK
        draw_text(
            figure,
            word.label,
            (across, top - TEXT_LINE * 0.48),
            size=TEXT_TYPE,
            color=colour,
            family=word.fonts,
        )
        if place in text.framed:
            if not number or sequence[number - 1] not in text.framed:
                frames.append([])
            frames[-1] += [across, across + word.width]
        across += 0.0 if backwards else word.width
    for index in frames:
        _draw_box(
            figure,
            min(index),
            max(index) - min(index),
            top,
            fill=False,
            edgecolor=INK,
            linewidth=1.2,
            zorder=3,
        )


def _draw_box(figure: Figure, x: float, width: float, top: float, **style: Any) -> None:
    """Draw a rectangle a little wider than its words, below `top`."""
    from matplotlib.patches import Rectangle

    at = x - TEXT_SPACE / 2, top - TEXT_LINE * 0.88
    figure.add_artist(
        Rectangle(
            at,
            width + TEXT_SPACE,
            TEXT_LINE * 0.8,
            transform=figure.dpi_scale_trans,
            **style,
        )
    )


if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 18
"""The maximum of letters drawn of a target."""
READING_WIDTH = 5.2
"""The minimum width of the figure, in inches."""
READING_BAR = 1.0, 0.09
"""The sides of the colour bar, in inches."""
MAX_PIECES = 6_000
"""The maximum of pieces in all rows together."""
READING_KEY = "each row: a target (query), and the source (keys) shaded by its weights"


def reading(
    alignment: Alignment,
    *,
    title: str = "",
    vmax: float = 1.0,
    first: int | None = None,
) -> Figure:
    """Plot the text once per target, shaded by that target's weights.

    Args:
        alignment: The weights.
        title: The title; further lines are details.
        vmax: The end of the scale.
        first: For self-attention, the position of the first row's target in the text;
            each target is framed at its position.

    Raises:
        InputError: There are too many pieces, matplotlib is not installed, or no
            installed font has a character.
    """
    _check_pieces(alignment)
    with plotting():
        figure = new_figure()
        readers = measure(
            figure,
            [shorten(label, longest=LONGEST) for label in alignment.target],
            TYPE,
        )
        words = measure(figure, alignment.source, TYPE)
        before = max((word.width for word in readers), default=0.0) + 0.15
        needed = before + sum(word.width + SPACE for word in words)
        room = min(WIDTH, max(READING_WIDTH, 2 * MARGIN + needed + SPACE))
        lines = break_lines([word.width for word in words], room - 2 * MARGIN - before)
        step = LINE * max(1, len(lines)) + GAP
        signs = explain_signs(alignment.source, alignment.target)
        heading = layout_title(figure, title, room - 2 * MARGIN, READING_KEY, signs)
        head = heading.height + 2.5 * READING_BAR[1] + GAP
        height = 2 * MARGIN + head + step * len(readers)
        figure.set_size_inches(room, height)
        bar = (
            MARGIN,
            heading.draw(figure, MARGIN, height - MARGIN) - READING_BAR[1],
            *READING_BAR,
        )
        above = bool((alignment.weights > vmax + 1e-6).any())
        add_color_bar(
            figure, to_fractions(bar, (room, height)), vmax=vmax, extends=above
        )
        backwards = is_right_to_left("".join(alignment.source))
        edges = (
            (MARGIN, room - MARGIN - before)
            if backwards
            else (MARGIN + before, room - MARGIN)
        )
        beside, aligned = (
            (edges[1] + 0.12, "left") if backwards else (edges[0] - 0.12, "right")
        )
        for number, shades in enumerate(np.minimum(alignment.weights / vmax, 1.0)):
            top, reader = height - MARGIN - head - step * number, readers[number]
            draw_text(
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
                line_words, at = [words[index] for index in part], top - row * LINE
                draw_line(
                    figure,
                    line_words,
                    shades[part],
                    edges,
                    at,
                    backwards=backwards,
                    framed=framed,
                )
    return figure


def _check_pieces(alignment: Alignment) -> None:
    rows, columns = alignment.weights.shape
    if rows * columns > MAX_PIECES:
        raise InputError(
            f"{rows} rows of {columns} pieces are {rows * columns:,}; at most {MAX_PIECES:,} are drawn: "
            "choose rows, or a part of the text"
        )
