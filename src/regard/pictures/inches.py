"""A figure as a sheet on which words and boxes are placed in inches from its lower left corner."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.pictures.fonts import families
from regard.pictures.labels import drawable
from regard.pictures.style import PAPER, hex_colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    directions = (unicodedata.bidirectional(letter) for letter in label)
    return next((each in ("R", "AL") for each in directions if each in ("L", "R", "AL")), False)
