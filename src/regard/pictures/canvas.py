"""A figure whose size is set after its content is placed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.pictures.style import (
    DARK,
    GRID,
    INK,
    MUTED,
    PAPER,
    SMALL_TYPE,
    TITLE_TYPE,
    color_map,
    hex_color,
)
from regard.pictures.text import choose_fonts, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARGIN, LINE, DETAIL, BAR = 0.15, 0.21, 0.16, 0.13
"""The margin, the heights of a line of a title and of a detail, and the thickness of a
color bar, in inches."""
MIN_TITLE_WIDTH = 4.6
"""The minimum width of a figure with a title, in inches."""
TITLE_LINES = 4
"""The maximum of lines of a title; a longer one ends in '…'."""
TITLE_LETTERS = 2_000
"""The maximum of letters of a title that are measured."""
MAX_LETTERS = 60
"""The maximum of letters drawn of a word."""
Box = tuple[float, float, float, float]
"""Left, top, width and height, in inches."""


@dataclass(frozen=True)
class Word:
    """A label with its fonts and its width in inches."""

    label: str
    fonts: list[str]
    width: float


def widest(words: Sequence[Word], default: float = 0.0) -> float:
    """Return the width of the widest word, in inches."""
    return max((word.width for word in words), default=default)


class Canvas:
    """A figure that grows downwards.

    Places are inches from its upper left corner; `finish` sets its size.
    """

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.transforms import Affine2D

        self.figure = Figure(facecolor=PAPER, dpi=100)
        self._renderer: Any = FigureCanvasAgg(self.figure).get_renderer()
        self._downwards = Affine2D().scale(1, -1)
        self.inches = self._downwards + self.figure.dpi_scale_trans
        self._boxes: list[tuple[Axes, Box]] = []
        self.width = 0.0

    def measure(
        self, labels: Sequence[str], size: float, longest: int = MAX_LETTERS
    ) -> list[Word]:
        """Return labels with their fonts and widths at a type size in points.

        Raises:
            InputError: No installed font has a character.
        """
        from matplotlib.font_manager import FontProperties

        texts = [shorten(label, longest=longest) for label in labels]
        words = []
        for label, fonts in zip(texts, choose_fonts(texts), strict=True):
            width, _, _ = self._renderer.get_text_width_height_descent(
                label, FontProperties(family=fonts, size=size), ismath=False
            )
            words.append(Word(label, fonts, width / self.figure.dpi))
        return words

    def wrap(self, label: str, width: float, size: float = SMALL_TYPE) -> list[Word]:
        """Break a text into lines of at most `width` inches.

        Lines end at spaces, or within a word that is longer than a line.
        """

        def fits(line: str) -> bool:
            (word,) = self.measure([line.rstrip()], size, TITLE_LETTERS)
            return word.width <= width

        lines = [""]
        for piece in re.findall(r"\S+\s*|\s+", label):
            parts = [piece]
            if not fits(piece):
                parts = list(piece)
            for part in parts:
                line = lines[-1]
                if line and not fits(line + part):
                    lines.append("")
                lines[-1] += part
        texts = [line.rstrip() for line in lines]
        return self.measure(texts, size, TITLE_LETTERS)

    def add_title(self, title: str, width: float, *notes: str) -> float:
        """Draw a title above content of a width, and return where the content begins.

        Its first line is the text; further lines and the `notes` are details. The figure
        has the width of the content with margins, or the minimum of a title.

        Raises:
            InputError: No installed font has a character.
        """
        least = MIN_TITLE_WIDTH if title else 0.0
        self.width = max(width + 2 * MARGIN, least)
        width = self.width - 2 * MARGIN
        head, *details = title.split("\n")
        lines = []
        if head:
            text = shorten(head, longest=TITLE_LETTERS)
            lines = self.wrap(text, width, TITLE_TYPE)
        if len(lines) > TITLE_LINES:
            lines = lines[:TITLE_LINES]
            last = lines.pop().label[:-2].rstrip()
            lines += self.measure([f"{last}…"], TITLE_TYPE, TITLE_LETTERS)
        y = MARGIN
        for line in lines:
            self.text(
                line,
                MARGIN,
                y + LINE / 2,
                size=TITLE_TYPE,
                color=INK,
            )
            y += LINE
        for detail in (*details, *notes):
            if detail:
                y = self.add_lines(self.wrap(detail, width), MARGIN, y)
        return y if y == MARGIN else y + 0.08

    def add_lines(self, lines: Sequence[Word], x: float, y: float) -> float:
        """Draw small lines below each other, and return where they end."""
        for line in lines:
            self.text(line, x, y + DETAIL / 2)
            y += DETAIL
        return y

    def text(self, word: Word | str, x: float, y: float, **style: Any) -> None:
        """Draw text, by default small and muted, centered vertically at `y`."""
        if isinstance(word, Word):
            style["family"] = word.fonts
            word = word.label
        defaults = {"size": SMALL_TYPE, "color": MUTED, "va": "center_baseline"}
        style = defaults | style
        self.figure.text(x, y, word, **style, transform=self.inches)

    def add_box(self, box: Box, **style: Any) -> None:
        """Draw a rectangle."""
        from matplotlib.patches import Rectangle

        patch = Rectangle(box[:2], *box[2:], transform=self.inches, **style)
        self.figure.add_artist(patch)

    def add_shaded(
        self, word: Word | str, box: Box, weight: float, size: float
    ) -> None:
        """Draw a word centered in a box with the color of a weight."""
        self.add_box(box, facecolor=hex_color(weight))
        left, top, width, height = box
        self.text(
            word,
            left + width / 2,
            top + height / 2,
            size=size,
            color=PAPER if abs(weight) > DARK else INK,
            ha="center",
        )

    def add_axes(self, box: Box) -> Axes:
        """Add axes in a box."""
        axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._boxes.append((axes, box))
        return axes

    def add_image(self, box: Box, pixels: np.ndarray) -> Axes:
        """Add an image in a frame."""
        axes = self.add_axes(box)
        if pixels.shape[2] == 1:
            pixels = np.repeat(pixels, 3, 2)
        axes.imshow(pixels, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        return axes

    def add_color_bar(
        self, box: Box, end: float, *, signed: bool = False, extends: bool = False
    ) -> None:
        """Add a color bar from 0, or -`end` if signed, to `end`.

        It ends in a point if it `extends`, because numbers are larger.
        """
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        _, _, width, height = box
        ticks = [0.0, end / 2, end]
        if signed:
            ticks = [-end, 0.0, end]
        scale = Normalize(ticks[0], end)
        bar = self.figure.colorbar(
            ScalarMappable(scale, color_map(signed=signed)),
            cax=self.add_axes(box),
            extend="max" if extends else "neither",
            orientation="horizontal" if width > height else "vertical",
        )
        bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
        bar.outline.set(edgecolor=GRID, linewidth=0.6)  # pyright: ignore[reportCallIssue]

    def finish(self, bottom: float) -> Figure:
        """Set the size of the figure, whose content ends at `bottom`, and return it."""
        width = self.width
        height = bottom + MARGIN
        self.figure.set_size_inches(width, height)
        self._downwards.translate(0, height)
        for axes, (edge, top, across, tall) in self._boxes:
            bottom = height - top - tall
            shares = (
                edge / width,
                bottom / height,
                across / width,
                tall / height,
            )
            axes.set_position(shares)
        return self.figure


def exceeds(weights: np.ndarray, end: float) -> bool:
    """Check whether weights are larger than the end of a scale."""
    return bool((weights > end + 1e-6).any())
