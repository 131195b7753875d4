"""The title of a figure: what is shown, wrapped, and below it how it is shown, never cut."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regard.pictures.inches import Word, measured, text
from regard.pictures.labels import drawable
from regard.pictures.style import INK, MUTED, sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE, DETAIL, GAP = 0.21, 0.16, 0.06
"""The heights of a line of the title and of a detail, and the space below them, in inches."""
LEAST = 4.6
"""The least width of a figure with a title, in inches."""
LINES = 4
"""The most lines of the text itself; a longer one ends in '…'."""
LETTERS = 2_000
"""The most letters of a title that are measured."""


@dataclass(frozen=True)
class Title:
    """The lines of a title and of its details."""

    lines: tuple[Word, ...]
    details: tuple[Word, ...]

    @property
    def height(self) -> float:
        """Its height with the space below, in inches."""
        tall = LINE * len(self.lines) + DETAIL * len(self.details)
        return tall + GAP if tall else 0.0

    @property
    def width(self) -> float:
        """The width of its longest line, in inches."""
        return max((each.width for each in (*self.lines, *self.details)), default=0.0)

    def draw(self, figure: Figure, left: float, top: float) -> float:
        """Draw it below `top`, in inches, and return where the figure's content begins."""
        size = sizes(1)
        for word in self.lines:
            text(
                figure,
                word.label,
                (left, top - LINE / 2),
                size=size.title,
                color=INK,
                family=word.fonts,
            )
            top -= LINE
        for word in self.details:
            text(
                figure,
                word.label,
                (left, top - DETAIL / 2),
                size=size.small,
                color=MUTED,
                family=word.fonts,
            )
            top -= DETAIL
        return top - (GAP if self.height else 0.0)


def titled(figure: Figure, title: str, room: float, *notes: str) -> Title:
    """A title wrapped to a width in inches. Its first line is the text, further lines and the `notes` are details.
    Raises InputError if no installed font has a character."""
    head, *details = title.split("\n")
    size = sizes(1)
    lines = (
        wrapped(figure, drawable(head, longest=LETTERS), size.title, room)
        if head
        else []
    )
    if len(lines) > LINES:
        last = lines[LINES - 1].label
        lines = [
            *lines[: LINES - 1],
            *measured(figure, [last[:-2].rstrip() + "…"], size.title, LETTERS),
        ]
    below = [
        line
        for each in (*details, *notes)
        if each
        for line in wrapped(figure, each, size.small, room)
    ]
    return Title(tuple(lines), tuple(below))


def wrapped(figure: Figure, label: str, size: float, room: float) -> list[Word]:
    """A text as lines of at most `room` inches, broken at blanks, or within a word that is longer than a line."""

    def width(part: str) -> float:
        return measured(figure, [part.rstrip()], size, LETTERS)[0].width

    lines = [""]
    for piece in re.findall(r"\S+\s*|\s+", label):
        if lines[-1] and width(lines[-1] + piece) > room:
            lines.append("")
        if width(piece) <= room:
            lines[-1] += piece
            continue
        for letter in piece:
            if lines[-1] and width(lines[-1] + letter) > room:
                lines.append("")
            lines[-1] += letter
    return measured(figure, [line.rstrip() for line in lines], size, LETTERS)
