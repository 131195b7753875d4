"""A figure as a sheet on which words and boxes are placed in inches from its lower left corner."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.pictures.fonts import families
from regard.pictures.labels import drawable
from regard.pictures.style import PAPER, hex_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIGHT, LEFT = ("R", "AL"), ("L", "EN", "AN")
"""Directions of letters from the right, and of letters and digits from the left."""
LONGEST = 60
"""Letters of a word that are drawn."""


@dataclass(frozen=True)
class Word:
    """A label, the fonts to draw it with, and its width in inches."""

    label: str
    fonts: list[str]
    width: float


def sheet() -> Figure:
    """An empty figure, whose size is set when it is known."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(facecolor=PAPER, dpi=100)
    FigureCanvasAgg(figure)
    return figure


def measured(figure: Figure, labels: Sequence[str], size: float, longest: int = LONGEST) -> list[Word]:
    """Labels as they are drawn in type of so many points. Raises InputError where no installed font has a character."""
    from matplotlib.font_manager import FontProperties

    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue] that of the Agg canvas
    shown = [drawable(label, longest=longest) for label in labels]
    found = []
    for label, own in zip(shown, families(shown), strict=True):
        width, _, _ = renderer.get_text_width_height_descent(label, FontProperties(family=own, size=size), ismath=False)
        found.append(Word(label, own, width / figure.dpi))
    return found


def box(figure: Figure, place: tuple[float, float, float, float], shade: float, **style: Any) -> None:
    """A rectangle, left, bottom, width and height, in the colour of a weight."""
    from matplotlib.patches import Rectangle

    left, bottom, width, height = place
    inches = figure.dpi_scale_trans
    figure.add_artist(Rectangle((left, bottom), width, height, facecolor=hex_colour(shade), transform=inches, **style))


def text(figure: Figure, label: str, place: tuple[float, float], **style: Any) -> None:
    """Text whose middle line is at a height, from a place across on. Labels are text, never mathematics."""
    inches = figure.dpi_scale_trans
    figure.text(*place, label, transform=inches, va="center_baseline", parse_math=False, **style)


def from_the_right(label: str) -> bool:
    """Whether the first letter that has a direction is written from right to left."""
    return next((each in RIGHT for each in _directions(label) if each in RIGHT or each == "L"), False)


def order(labels: Sequence[str]) -> list[int]:
    """Which label comes first, second and so on from the right in a line that is written so: neighbours that begin with
    letters or digits from the left keep that order among themselves (Unicode Annex 9, in short)."""
    found: list[int] = []
    run: list[int] = []
    for place, label in enumerate(labels):
        if next(_directions(label), "") in LEFT:
            run.insert(0, place)
        else:
            found += [*run, place]
            run = []
    return found + run


def _directions(label: str) -> Iterator[str]:
    return (unicodedata.bidirectional(letter) for letter in label)
