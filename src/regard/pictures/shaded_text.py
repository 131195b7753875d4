"""Text shaded by its weights: a document, a text once per target, a text with signed weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.alignment import Alignment, DocumentWeights, TextWeights
from regard.pictures.canvas import (
    DARK,
    INK,
    PAPER,
    SMALL_TYPE,
    add_color_bar,
    grid_figure,
    hex_color,
    is_nearly_uniform,
    measure,
    plotting,
    round_scale_end,
)
from regard.pictures.text import explain_signs, is_right_to_left, shorten, visual_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, BEFORE, GAP = 7.3, 0.75, 0.1
"""The width of a document, the space before its sentences, and the space between them,
in inches."""
TEXT_WIDTH, TEXT_GAP = 6.1, 0.16
"""The width of texts, and the space between them, in inches."""
BAR: Any = {"location": "bottom", "shrink": 0.25, "anchor": (0.0, 0.5), "aspect": 16}
"""The place of a color bar, and its room in inches."""
BAR_ROOM = 0.5
MAX_LETTERS = 60
"""The maximum of letters drawn of a word."""
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
    """A text broken into lines of limited width, in inches.

    `glued` tells whether each word follows the one before without a space.
    """

    def __init__(
        self,
        labels: Sequence[str],
        style: Type,
        width: float,
        glued: Sequence[bool] = (),
    ):
        self.type, self.width = style, width
        self.labels = [shorten(label, MAX_LETTERS) for label in labels]
        self.widths = measure(self.labels, style.size)
        self.backwards = is_right_to_left("".join(labels))
        glued = glued or [False] * len(labels)
        self.gaps = [0.0 if flag else style.space for flag in glued]
        self.lines: list[list[int]] = []
        room = 0.0
        for index, needed in enumerate(np.add(self.widths, self.gaps)):
            if not self.lines or needed > room:
                self.lines.append([])
                room = width
            self.lines[-1].append(index)
            room -= needed

    @property
    def height(self) -> float:
        """The height of the lines."""
        return self.type.line * max(1, len(self.lines))

    def draw(
        self,
        axes: Axes,
        edge: float,
        top: float,
        shades: Float[np.ndarray, " word"],
        framed: Collection[int] = (),
    ) -> None:
        """Draw the lines below `top`, some words framed.

        A right-to-left text begins at the right.
        """
        line, _, size = self.type
        for number, indices in enumerate(self.lines):
            x, sign, align, order = edge, 1, "left", indices
            if self.backwards:
                x, sign, align = edge + self.width, -1, "right"
                labels = [self.labels[index] for index in indices]
                order = [indices[index] for index in visual_order(labels)]
            y = top + (number + 0.5) * line
            for index in order:
                x += sign * self.gaps[index]
                place = x, y, self.labels[index], float(shades[index])
                style = {"size": size, "ha": align}
                draw_word(axes, *place, framed=index in framed, **style)
                x += sign * self.widths[index]


def draw_word(
    axes: Axes,
    x: float,
    y: float,
    label: str,
    weight: float,
    *,
    framed: bool = False,
    **style: Any,
) -> None:
    """Draw a word on the color of a weight, in a frame or without one."""
    edge = INK if framed else "none"
    box = {"facecolor": hex_color(weight), "edgecolor": edge, "pad": 1.5}
    color = PAPER if abs(weight) > DARK else INK
    axes.text(x, y, label, color=color, bbox=box, va="center_baseline", **style)


def text_figure(
    title: str, size: tuple[float, float], *notes: str
) -> tuple[Figure, Axes]:
    """Return a figure with axes in inches from the upper left corner."""
    width, height = size[0], max(size[1], 0.3)
    figure, ((axes,),) = grid_figure(title, 1, 1, (width, height), *notes)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


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
    with plotting(title, *chain(*document.sentences)):
        room = WIDTH - BEFORE
        texts = [ShadedText(labels, SMALL, room) for labels in document.sentences]
        height = sum((text.height + GAP for text in texts), 0.0)
        figure, axes = text_figure(title, (WIDTH, height), *notes)
        y = 0.0
        for text, weight, row in zip(texts, document.weights, words, strict=True):
            place = 0.0, y + SMALL.line / 2, f"{weight:.3f}", weight / (darkest or 1.0)
            draw_word(axes, *place, size=SMALL_TYPE)
            text.draw(axes, BEFORE, y, row / (darkest_word or 1.0))
            y += text.height + GAP
    return figure


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
    notes = explain_colors(text), NO_WORD if is_nearly_uniform(text.weights) else ""
    with plotting(title, *text.labels, text.name):
        parts = []
        height = BAR_ROOM
        for number in sorted(set(text.texts)):
            first = text.texts.index(number)
            part = slice(first, first + text.texts.count(number))
            labels, glued = text.labels[part], text.glued[part]
            parts.append((part, ShadedText(labels, LARGE, TEXT_WIDTH, glued)))
            height += parts[-1][1].height + TEXT_GAP
        figure, axes = text_figure(title, (TEXT_WIDTH, height), *notes)
        axes.set_ylim(height - BAR_ROOM, 0)
        y = 0.0
        for part, words in parts:
            framed = {index - part.start for index in text.framed}
            words.draw(axes, 0.0, y, text.weights[part] / end, framed)
            y += words.height + TEXT_GAP
        add_color_bar(figure, end, text.weights, ax=axes, **BAR)
    return figure


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
    with plotting(title, *alignment.source, *alignment.target):
        readers = [shorten(label, 18) for label in alignment.target]
        before = max(measure(readers, SMALL.size), default=0.0) + 0.15
        text = ShadedText(alignment.source, SMALL, WIDTH - before)
        if len(text.lines) < 2:
            text.width = sum(text.widths) + sum(text.gaps)
        height = rows * (text.height + GAP)
        size = before + text.width, height + BAR_ROOM
        signs = explain_signs(alignment.source, alignment.target)
        figure, axes = text_figure(title, size, READING_KEY, signs)
        axes.set_ylim(max(height, 0.3), 0)
        edge, x, align = before, before - 0.06, "right"
        if text.backwards:
            edge, x, align = 0.0, text.width + 0.1, "left"
        for row, reader in enumerate(readers):
            y = row * (text.height + GAP)
            style = {"size": SMALL.size, "ha": align, "va": "center_baseline"}
            axes.text(x, y + SMALL.line / 2, reader, **style)
            framed = () if first is None else (first + row,)
            text.draw(axes, edge, y, weights[row] / vmax, framed)
        add_color_bar(figure, vmax, weights, ax=axes, **BAR)
    return figure
