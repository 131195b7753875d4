"""Figures with words and boxes placed in inches from the lower left corner."""

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
"""Bidirectional classes of right-to-left letters, and of left-to-right letters and digits."""
LONGEST = 60
"""The maximum of letters drawn of a word."""


@dataclass(frozen=True)
class Word:
    """A label with its fonts and its width in inches."""

    label: str
    fonts: list[str]
    width: float


def sheet() -> Figure:
    """An empty figure; its size is set later."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(facecolor=PAPER, dpi=100)
    FigureCanvasAgg(figure)
    return figure


def measured(
    figure: Figure, labels: Sequence[str], size: float, longest: int = LONGEST
) -> list[Word]:
    """Labels with their fonts and widths at a type size in points. Raises InputError if no installed font has a
    character."""
    from matplotlib.font_manager import FontProperties

    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue] that of the Agg canvas
    shown = [drawable(label, longest=longest) for label in labels]
    found = []
    for label, own in zip(shown, families(shown), strict=True):
        width, _, _ = renderer.get_text_width_height_descent(
            label, FontProperties(family=own, size=size), ismath=False
        )
        found.append(Word(label, own, width / figure.dpi))
    return found


def box(
    figure: Figure, place: tuple[float, float, float, float], shade: float, **style: Any
) -> None:
    """A rectangle (left, bottom, width, height) in the colour of a weight."""
    from matplotlib.patches import Rectangle

    left, bottom, width, height = place
    inches = figure.dpi_scale_trans
    figure.add_artist(
        Rectangle(
            (left, bottom),
            width,
            height,
            facecolor=hex_colour(shade),
            transform=inches,
            **style,
        )
    )


def text(figure: Figure, label: str, place: tuple[float, float], **style: Any) -> None:
    """Plain text, never mathematics, centred vertically at `place`."""
    inches = figure.dpi_scale_trans
    figure.text(
        *place, label, transform=inches, va="center_baseline", parse_math=False, **style
    )


def from_the_right(label: str) -> bool:
    """Whether the first letter with a direction is a right-to-left letter."""
    return next(
        (each in RIGHT for each in _directions(label) if each in RIGHT or each == "L"),
        False,
    )


def order(labels: Sequence[str]) -> list[int]:
    """The order of labels from the right in a right-to-left line. Adjacent labels that begin with left-to-right letters
    or digits keep their order (a short form of Unicode Annex 9)."""
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
