"""Text shaded by its weights: a document, a text once per target, a text with signed weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.alignment import Alignment, DocumentWeights, TextWeights
from regard.pictures.canvas import (
    DETAIL,
    INK,
    MARGIN,
    SMALL_TYPE,
    Canvas,
    Word,
    is_nearly_uniform,
    plotting,
    round_scale_end,
    widest,
)
from regard.pictures.text import (
    explain_signs,
    is_right_to_left,
    visual_order,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, BEFORE, GAP = 7.6, 0.75, 0.1
"""The width of a document, the space before its sentences, and the space between them,
in inches."""
TEXT_WIDTH, TEXT_GAP = 6.4, 0.16
"""The width of texts, and the space between them, in inches."""
READING_WIDTH = 5.2
"""The minimum width of a reading, in inches."""
MAX_PARTS, MAX_WORDS = 6_000, 3_000
"""The maximum of words of a text, and of a document."""
NO_WORD = "nearly even: the model prefers no word"
READING_KEY = "each row: a target (query), and the source (keys) shaded by its weights"


class Type(NamedTuple):
    """The height of a line and the space between words in inches, the size in points."""

    line: float
    space: float
    size: float


SMALL, LARGE = Type(0.22, 0.06, 9.0), Type(0.3, 0.075, 11.0)


class ShadedText:
    """A text broken into lines of limited width.

    `glued` tells whether each word follows the one before without a space.
    """

    def __init__(
        self,
        canvas: Canvas,
        labels: Sequence[str],
        style: Type,
        width: float,
        glued: Sequence[bool] = (),
    ):
        self.canvas, self.type, self.width = canvas, style, width
        self.words: list[Word] = canvas.measure(labels, style.size)
        self.backwards = is_right_to_left("".join(labels))
        glued = glued or [False] * len(labels)
        self.gaps = [0.0 if flag else style.space for flag in glued]
        self.lines: list[list[int]] = []
        room = 0.0
        for index, word in enumerate(self.words):
            needed = word.width + self.gaps[index]
            if not self.lines or needed > room:
                self.lines.append([])
                room = width
            self.lines[-1].append(index)
            room -= needed

    def draw(
        self,
        edge: float,
        top: float,
        shades: Float[np.ndarray, " word"],
        framed: Collection[int] = (),
    ) -> float:
        """Draw the lines below `top`, some words framed, and return where they end.

        A right-to-left text begins at the right.
        """
        line, space, size = self.type
        height = 0.84 * line
        for indices in self.lines:
            x, sign, order = edge, 1, indices
            if self.backwards:
                x, sign = edge + self.width, -1
                labels = [self.words[index].label for index in indices]
                order = [indices[index] for index in visual_order(labels)]
            y = top + 0.08 * line
            frames: list[tuple[float, float]] = []
            previous = None
            for index in order:
                word = self.words[index]
                width = word.width + space
                if previous is not None:
                    x += sign * (self.gaps[index] - space)
                start = x - width if self.backwards else x
                box = (start, y, width, height)
                self.canvas.add_shaded(
                    word,
                    box,
                    float(shades[index]),
                    size,
                )
                if index in framed:
                    edges = [start, start + width]
                    if previous in framed:
                        edges += frames.pop()
                    frames.append((min(edges), max(edges)))
                x += sign * width
                previous = index
            for start, end in frames:
                self.canvas.add_box(
                    (start, y, end - start, height),
                    zorder=3,
                    fill=False,
                    edgecolor=INK,
                    linewidth=1.2,
                )
            top += line
        return top if self.lines else top + line


def draw_document(document: DocumentWeights, *, title: str = "") -> Figure:
    """Plot the text of a document, each sentence after its weight.

    The sentence and the word with the greatest weight are darkest. Word weights are
    multiplied by the root of their sentence's weight, so that words of weakly attended
    sentences are faint but visible (Yang 2016, section 3.4).

    Raises:
        InputError: There are too many words, matplotlib is not installed, or no
            installed font has a character.
    """
    count = sum(map(len, document.sentences))
    if count > MAX_WORDS:
        raise InputError(
            f"{count:,} words; at most {MAX_WORDS:,} are drawn; give a part of the "
            "document, or write .html"
        )
    roots = np.sqrt(document.weights)
    words = [root * row for root, row in zip(roots, document.words, strict=True)]
    darkest = float(document.weights.max(initial=0.0))
    darkest_word = float(np.concatenate([*words, [0.0]]).max())
    notes = [
        f"before each sentence its weight: white 0, darkest {darkest:.3g}",
        "words: weight within the sentence × root of the sentence's weight: "
        f"white 0, darkest {darkest_word:.3g}",
    ]
    if not document.sentences:
        notes = ["no sentence"]
    edge = MARGIN + BEFORE
    with plotting():
        canvas = Canvas()
        y = canvas.add_title(title, WIDTH - 2 * MARGIN, *notes)
        for index, labels in enumerate(document.sentences):
            weight = float(document.weights[index])
            box = (MARGIN, y + 0.08 * SMALL.line, BEFORE - 0.2, 0.84 * SMALL.line)
            shade = weight / (darkest or 1.0)
            canvas.add_shaded(
                f"{weight:.3f}",
                box,
                shade,
                SMALL_TYPE,
            )
            sentence = ShadedText(
                canvas,
                labels,
                SMALL,
                WIDTH - MARGIN - edge,
            )
            y = sentence.draw(edge, y, words[index] / (darkest_word or 1.0)) + GAP
        return canvas.finish(y)


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
            f"the text has {len(text.labels):,} words; at most {MAX_PARTS:,} are drawn: "
            "give a part of it"
        )
    end = round_scale_end(text.weights)
    width = TEXT_WIDTH - 2 * MARGIN
    note = NO_WORD if is_nearly_uniform(text.weights) else ""
    with plotting():
        canvas = Canvas()
        y = canvas.add_title(title, width, note)
        canvas.add_color_bar((MARGIN, y, 1.6, 0.1), end, text.weights)
        edge = MARGIN + 1.8
        room = TEXT_WIDTH - edge - MARGIN
        y = max(
            canvas.add_lines(
                explain_colors(text),
                edge,
                y - 0.03,
                room,
            ),
            y + 0.34,
        )
        for number in sorted(set(text.texts)):
            first = text.texts.index(number)
            part = slice(first, first + text.texts.count(number))
            labels, glued = text.labels[part], text.glued[part]
            words = ShadedText(
                canvas,
                labels,
                LARGE,
                width,
                glued,
            )
            framed = {index - first for index in text.framed}
            y = (
                words.draw(
                    MARGIN,
                    y,
                    text.weights[part] / end,
                    framed,
                )
                + TEXT_GAP
            )
        return canvas.finish(y)


def explain_colors(text: TextWeights) -> str:
    """Explain the colors and the frames of a text."""
    means = "share of each word"
    if text.averaged:
        means = "weight of a word: the mean of its pieces"
    if text.signed:
        mark = ";" if text.averaged else ":"
        means += f"{mark} blue for {text.name}, orange against it"
    return f"{means}; framed: {text.name}" if text.framed else means


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
    weights = alignment.weights
    rows, columns = weights.shape
    if rows * columns > MAX_PARTS:
        raise InputError(
            f"{rows} rows of {columns} pieces are {rows * columns:,}; at most "
            f"{MAX_PARTS:,} are drawn: choose rows, or a part of the text"
        )
    with plotting():
        canvas = Canvas()
        readers = canvas.measure(alignment.target, SMALL.size, 18)
        before = widest(readers) + 0.15
        text = ShadedText(
            canvas,
            alignment.source,
            SMALL,
            WIDTH - 2 * MARGIN - before,
        )
        if len(text.lines) < 2:
            needed = sum(word.width + SMALL.space for word in text.words)
            text.width = max(READING_WIDTH - 2 * MARGIN - before, needed)
        signs = explain_signs(alignment.source, alignment.target)
        y = canvas.add_title(
            title,
            before + text.width,
            READING_KEY,
            signs,
        )
        canvas.add_color_bar((MARGIN, y, 1.0, 0.09), vmax, weights)
        y += 2 * DETAIL
        edge = MARGIN + before
        x, align = edge - 0.12, "right"
        if text.backwards:
            edge = MARGIN
            x, align = edge + text.width + 0.12, "left"
        for row, reader in enumerate(readers):
            canvas.text(
                reader,
                x,
                y + SMALL.line / 2,
                size=SMALL.size,
                color=INK,
                ha=align,
            )
            framed = () if first is None else (first + row,)
            y = (
                text.draw(
                    edge,
                    y,
                    weights[row] / vmax,
                    framed,
                )
                + GAP
            )
        return canvas.finish(y)
