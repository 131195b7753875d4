"""Colors, sizes and color scales of every picture, and matplotlib's settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.extras import how_to_install

INK, MUTED, GRID, PAPER = "#1a1f2b", "#5c6472", "#dfe3e8", "#ffffff"
COLORS = (
    "#29315b",
    "#f16328",
    "#4c95f9",
    "#a500a9",
    "#665a4d",
    "#680800",
    "#3043ff",
    "#b27998",
)
"""Colours of adjacent items. With any kind of colour blindness, each pair differs by at
least 0.14 in Oklab; the contrast with the paper is at least 3 to 1."""
DARK_PAPER = "#15181d"
DARK_COLORS = (
    "#8899ff",
    "#ee8811",
    "#77ff00",
    "#cc1100",
    "#ffffff",
    "#5544ff",
    "#ddbbbb",
    "#885588",
)
"""The background of dark pages, and the same colours for it."""
DARK = 0.57
"""The shade above which letters are light, so that their contrast is at least 4 to
1."""
DARK_LUMA = 90
"""The mean luma below which a photograph is dark, of 255; Fashion-MNIST has 73, a
photograph by day about 115."""
LUMA = 0.299, 0.587, 0.114
"""The shares of red, green and blue in luma."""
MAX_DOTS = 7000
SETTINGS: Any = {
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "text.hinting": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "svg.id": None,
}


@dataclass(frozen=True)
class Sizes:
    """Lengths in inches; type and lines in points."""

    cell: float
    label: float
    line: float
    title: float = 11.0
    small: float = 8.0
    margin: float = 0.12
    bar: float = 0.13


def choose_sizes(labels: int) -> Sizes:
    """Sizes for a matrix whose longer side has `labels` labels. Cells shrink slowly, and type stays readable."""
    cell = min(0.36, max(0.13, 12.0 / max(labels, 1)))
    return Sizes(
        cell=cell, label=min(10.0, cell * 72 * 0.62), line=0.6 if labels <= 64 else 0.25
    )


def resolution(width: float, height: float) -> int:
    """Return the dots per inch for a figure of this size in inches.

    They are 200, or fewer to keep each side below 7,000 dots.
    """
    return min(200, int(MAX_DOTS / max(width, height)))


@cache
def palette(dark: bool = False) -> np.ndarray:
    """(256, 3) sRGB in 0..255 for weights 0 to 1: white to deep blue, or near black to pale blue on a dark page.

    Equal steps of weight are equal distances in Oklab, and lightness is monotonic, so
    the scale works in grey and with any kind of colour blindness."""
    if dark:
        return _space_evenly(
            lambda t: (
                0.22 + 0.73 * t,
                0.02 + 0.09 * np.sin(np.pi * t),
                np.radians(262 - 40 * t),
            )
        )
    return _space_evenly(
        lambda t: (
            1 - 0.72 * t,
            0.11 * np.sin(np.pi * t) + 0.05 * t,
            np.radians(238 + 28 * t),
        )
    )


def _space_evenly(
    path: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> np.ndarray:
    """(256, 3) sRGB, evenly spaced along a path of lightness, chroma and hue."""
    lightness, chroma, hue = path(np.linspace(0.0, 1.0, 2001))
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=-1)
    length = np.concatenate(
        [[0.0], np.cumsum(np.linalg.norm(np.diff(lab, axis=0), axis=1))]
    )
    even = np.linspace(0.0, length[-1], 256)
    return _oklab_to_srgb(
        np.stack([np.interp(even, length, lab[:, i]) for i in range(3)], axis=-1)
    )


@cache
def heat_colors(dark: bool = False) -> np.ndarray:
    """Return (256, 3) sRGB in 0..255 for the heat map over a photograph.

    Pale yellow, orange, red, dark red: lightness falls monotonically. Over a dark
    photograph it rises, from dark red to pale yellow.
    """
    if dark:
        return heat_colors()[::-1]
    stops = np.array(
        [[255, 240, 170], [255, 190, 60], [245, 115, 25], [210, 35, 30], [120, 0, 40]]
    )
    at = np.linspace(0, len(stops) - 1, 256)
    return np.stack(
        [np.interp(at, np.arange(len(stops)), stops[:, part]) for part in range(3)],
        axis=-1,
    ).round()


@cache
def diverging() -> np.ndarray:
    """(511, 3) sRGB in 0..255 for -1 to 1: deep orange, white, and the deep blue of `palette()`."""
    warm = _space_evenly(
        lambda t: (
            1 - 0.62 * t,
            0.12 * np.sin(np.pi * t) + 0.09 * t,
            np.radians(62 - 22 * t),
        )
    )
    return np.concatenate([warm[:0:-1], palette()])


def is_dark(pixels: UInt8[np.ndarray, "height width channel"]) -> bool:
    """Whether the mean luma of a photograph, by ITU-R BT.601, is below `DARK_LUMA`."""
    means = pixels.mean((0, 1))
    return float(means @ LUMA if len(means) == len(LUMA) else means[0]) < DARK_LUMA


def hex_color(weight: float, dark: bool = False) -> str:
    """Return the color of a weight as #rrggbb; above 1 it is that of 1."""
    red, green, blue = palette(dark)[round(min(weight, 1.0) * 255)]
    return f"#{red:02x}{green:02x}{blue:02x}"


@contextmanager
def plotting() -> Iterator[None]:
    """Use matplotlib with this library's settings, whatever the user's are.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            f"a .png, .svg or .pdf picture needs matplotlib, which is not installed: {how_to_install('matplotlib')} "
            "(a .html page needs nothing)"
        ) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def _oklab_to_srgb(lab: np.ndarray) -> np.ndarray:
    """Oklab (Ottosson 2020) to 8-bit sRGB, clipped to its gamut."""
    to_lms = np.array(
        [
            [1, 0.3963377774, 0.2158037573],
            [1, -0.1055613458, -0.0638541728],
            [1, -0.0894841775, -1.2914855480],
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((lab @ to_lms.T) ** 3 @ to_linear.T, 0.0, 1.0)
    curved = np.where(
        linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    )
    return np.round(255 * curved).astype(np.uint8)


if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

UNIFORM_MULTIPLE = 4
"""A scale of shares ends at no less than so many times an even share: nearly even
shares are faint."""
STANDS_OUT, FEW_SHARES, STANDS_OUT_OF_FEW = 1.5, 4, 1.2
"""The greatest of nearly even shares is less than `STANDS_OUT` times an even one, or of
fewer than `FEW_SHARES` shares, which differ less from it, `STANDS_OUT_OF_FEW` times."""
SMALL_WEIGHTS = 0.3
"""A scale from 0 to 1 hardly shows weights below."""
Box = tuple[float, float, float, float]
"""Left, bottom, width and height."""


def color_map() -> ListedColormap:
    """From white at 0 to dark at 1."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(palette() / 255, name="regard")


def add_color_bar(
    figure: Figure,
    box: Box,
    *,
    vmax: float = 1.0,
    vmin: float = 0.0,
    extends: bool = False,
) -> None:
    """Add a color bar from `vmin` to `vmax`.

    Args:
        figure: The figure.
        box: The place of the bar, as fractions of the figure.
        vmax: The end of the scale.
        vmin: Its start; a negative one uses the colors of `diverging()`.
        extends: Whether it ends in a point, because values are larger.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colours = color_map() if vmin == 0 else ListedColormap(diverging() / 255)
    scale = ScalarMappable(Normalize(vmin, vmax), colours)
    across = box[2] > box[3]
    bar = figure.colorbar(
        scale,
        cax=figure.add_axes(box),
        extend="max" if extends else "neither",
        orientation="horizontal" if across else "vertical",
    )
    ticks = [vmin, (vmin + vmax) / 2, vmax]
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    bar.ax.tick_params(
        length=2,
        width=0.6,
        color=MUTED,
        labelsize=choose_sizes(1).small,
        labelcolor=MUTED,
        pad=2,
    )
    bar.outline.set(edgecolor=GRID, linewidth=0.6)  # pyright: ignore[reportCallIssue]


def to_fractions(box: Box, size: tuple[float, float]) -> Box:
    """Convert a box in inches to fractions of a figure of this size."""
    return box[0] / size[0], box[1] / size[1], box[2] / size[0], box[3] / size[1]


def scale_end(shares: np.ndarray) -> float:
    """Return the end of a scale of shares.

    It is the greatest magnitude, or `UNIFORM_MULTIPLE` times a uniform share if that is
    more.
    """
    magnitudes = np.abs(shares)
    return max(
        float(magnitudes.max(initial=0.0)),
        UNIFORM_MULTIPLE * float(magnitudes.sum()) / max(magnitudes.size, 1),
    )


def is_nearly_uniform(shares: np.ndarray) -> bool:
    """Check whether no share stands out.

    All have one sign, and the greatest is less than `STANDS_OUT` times the mean, or of
    few shares `STANDS_OUT_OF_FEW` times. A single share is not uniform.
    """
    bound = STANDS_OUT if shares.size >= FEW_SHARES else STANDS_OUT_OF_FEW
    return (
        shares.size > 1
        and float(shares.min()) >= 0
        and float(shares.max()) < bound * float(shares.mean())
    )


def has_uniform_rows(weights: np.ndarray) -> bool:
    """Whether every row of a matrix is nearly even, rows without weights aside."""
    rows = [row for row in weights if row.any()]
    return bool(rows) and all(map(is_nearly_uniform, rows))


def round_scale_end(shares: np.ndarray) -> float:
    """`scale_end`, rounded up to one digit, at most 1; 1 without a share."""
    return round_up(np.array(min(1.0, scale_end(shares))))


def choose_scale_end(weights: np.ndarray) -> float:
    """Choose the end of a matrix's scale.

    It is 1, so that pictures compare. Where all weights are small and would hardly be
    visible, it is the greatest weight, rounded up, or of nearly uniform rows
    `UNIFORM_MULTIPLE` times a uniform weight.
    """
    greatest = float(weights.max(initial=0.0))
    if not 0 < greatest < SMALL_WEIGHTS:
        return 1.0
    rows = weights.reshape(-1, weights.shape[-1])
    return (
        round_scale_end(weights[weights.any(-1)].mean(0))
        if has_uniform_rows(rows)
        else round_up(weights)
    )


def round_up(weights: np.ndarray) -> float:
    """Round the greatest weight up to one digit; 1 without a positive weight."""
    greatest = float(weights.max(initial=0.0))
    if greatest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(greatest))
    return float(f"{math.ceil(round(greatest / unit, 9)) * unit:.1g}")
