"""Colours of weights, and their colour bar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from regard.pictures.style import GRID, MUTED, diverging, palette, sizes

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

EVEN = 4
"""A scale of shares ends at no less than so many times an even share: nearly even shares are faint."""
PREFERRED, FEW, OF_FEW = 1.5, 4, 1.2
"""The greatest of nearly even shares is less than `PREFERRED` times an even one, or of fewer than `FEW` shares, which
differ less from it, `OF_FEW` times."""
SMALL = 0.3
"""A scale from 0 to 1 hardly shows weights below."""
Box = tuple[float, float, float, float]
"""Left, bottom, width and height."""


def colour_map() -> ListedColormap:
    """From white at 0 to dark at 1."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(palette() / 255, name="regard")


def colour_bar(
    figure: Figure,
    box: Box,
    *,
    most: float = 1.0,
    least: float = 0.0,
    above: bool = False,
) -> None:
    """A colour bar from `least` to `most` in `box` (shares of the figure). With `above` it ends in a point. A negative
    `least` uses the colours of `diverging()`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colours = colour_map() if least == 0 else ListedColormap(diverging() / 255)
    scale = ScalarMappable(Normalize(least, most), colours)
    across = box[2] > box[3]
    bar = figure.colorbar(
        scale,
        cax=figure.add_axes(box),
        extend="max" if above else "neither",
        orientation="horizontal" if across else "vertical",
    )
    ticks = [least, (least + most) / 2, most]
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    bar.ax.tick_params(
        length=2,
        width=0.6,
        color=MUTED,
        labelsize=sizes(1).small,
        labelcolor=MUTED,
        pad=2,
    )
    bar.outline.set(edgecolor=GRID, linewidth=0.6)  # pyright: ignore[reportCallIssue]


def share(box: Box, whole: tuple[float, float]) -> Box:
    """A box in inches as shares of a figure of size `whole`."""
    return box[0] / whole[0], box[1] / whole[1], box[2] / whole[0], box[3] / whole[1]


def end_of(shares: np.ndarray) -> float:
    """The share at the end of a scale: the greatest magnitude, or `EVEN` times an even one if that is more."""
    magnitudes = np.abs(shares)
    return max(
        float(magnitudes.max(initial=0.0)),
        EVEN * float(magnitudes.sum()) / max(magnitudes.size, 1),
    )


def nearly_even(shares: np.ndarray) -> bool:
    """Whether no share stands out: all have one sign, and the greatest is less than `PREFERRED` times the mean, or of
    few shares `OF_FEW` times. One alone is not even."""
    bound = PREFERRED if shares.size >= FEW else OF_FEW
    return (
        shares.size > 1
        and float(shares.min()) >= 0
        and float(shares.max()) < bound * float(shares.mean())
    )


def even_rows(weights: np.ndarray) -> bool:
    """Whether every row of a matrix is nearly even, rows without weights aside."""
    rows = [row for row in weights if row.any()]
    return bool(rows) and all(map(nearly_even, rows))


def rounded_end(shares: np.ndarray) -> float:
    """`end_of`, rounded up to one digit, at most 1; 1 without a share."""
    return round_up(np.array(min(1.0, end_of(shares))))


def whole_or_greatest(weights: np.ndarray) -> float:
    """The end of a matrix's scale: 1, so that pictures compare; the greatest weight, rounded up, where all are `SMALL`
    and would be hardly visible, but of nearly even rows `EVEN` times an even weight."""
    greatest = float(weights.max(initial=0.0))
    if not 0 < greatest < SMALL:
        return 1.0
    rows = weights.reshape(-1, weights.shape[-1])
    return (
        rounded_end(weights[weights.any(-1)].mean(0))
        if even_rows(rows)
        else round_up(weights)
    )


def round_up(weights: np.ndarray) -> float:
    """The greatest weight, rounded up to one digit; 1 without a positive weight."""
    greatest = float(weights.max(initial=0.0))
    if greatest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(greatest))
    return float(f"{math.ceil(round(greatest / unit, 9)) * unit:.1g}")
