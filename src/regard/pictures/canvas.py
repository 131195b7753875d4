"""A figure whose size is set after its content is placed."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import InputError
from regard.extras import how_to_install
from regard.pictures.text import choose_fonts, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

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
"""Colors of adjacent items. With any kind of color blindness, each pair differs by at
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
"""The background of dark pages, and the same colors for it."""
DARK = 0.57
"""The shade above which letters are light, for a contrast of at least 4 to 1."""
DARK_LUMA = 90
"""The mean luma below which a photograph is dark, of 255; Fashion-MNIST has 73, a
photograph by day about 115."""
MAX_DOTS = 7000
TITLE_TYPE, SMALL_TYPE = 9.0, 8.0
"""Type sizes in points."""
SETTINGS: Any = {
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "text.hinting": "none",
    "text.parse_math": False,  # '$' stays '$'
    "axes.edgecolor": GRID,
    "axes.linewidth": 0.6,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.labelsize": SMALL_TYPE,
    "axes.labelcolor": MUTED,
    "axes.labelpad": 2,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "xtick.labelsize": SMALL_TYPE,
    "xtick.major.size": 2,
    "xtick.major.width": 0.6,
    "ytick.color": MUTED,
    "ytick.labelsize": SMALL_TYPE,
    "ytick.major.size": 2,
    "ytick.major.width": 0.6,
    "image.aspect": "auto",
    "image.interpolation": "none",
    "legend.fontsize": SMALL_TYPE,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "regard",
    "svg.id": None,
}
UNIFORM_MULTIPLE = 4
"""A scale of shares ends at no less than this many times a uniform share: nearly
uniform shares are faint."""
SMALL_WEIGHTS = 0.3
"""A scale from 0 to 1 hardly shows weights below."""


@contextmanager
def plotting(*texts: str) -> Iterator[None]:
    """Use matplotlib with this library's settings, and fonts for the texts.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
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
        if texts:
            visible = [shorten(text, LINE_LETTERS) for text in texts]
            matplotlib.rcParams["font.family"] = choose_fonts(visible)
        yield


def cell_side(labels: int) -> float:
    """Return the side of a cell, in inches, of a matrix with at most so many labels."""
    return min(0.36, max(0.13, 12.0 / max(labels, 1)))


def label_type(cell: float) -> float:
    """Return the type size of labels beside cells of this side, in points."""
    return min(10.0, cell * 72 * 0.62)


def render(figure: Figure, form: str = "png", **options: Any) -> bytes:
    """Return the content of a file; equal figures give equal bytes."""
    content = io.BytesIO()
    options.setdefault("dpi", resolution(*figure.get_size_inches()))
    options.setdefault("metadata", {"Software": None})
    with plotting():
        figure.savefig(content, format=form, **options)
    return content.getvalue()


def resolution(width: float, height: float) -> int:
    """Return the dots per inch for a figure of this size in inches.

    They are 200, or fewer to keep each side below 7,000 dots.
    """
    return min(200, int(MAX_DOTS / max(width, height)))


LIGHT = "ffffff c9e8ff 97cefc 6bb0f1 4a91dd 3773be 2d5797 263e6c 1d2842"
NIGHT = "161b24 1e314b 234973 286598 3683b8 53a1cf 7cbee0 add9ed e1f2f8"
WARM = "ffffff ffe1c7 ffc191 fc9f5e ec7d2d d46000 b34900 8e3a11 692f1a"
"""Colors at equal steps of weight: white to deep blue, near black to pale blue, white
to deep orange. Equal steps are equal distances in Oklab (Ottosson 2020), and lightness
is monotonic, so the scales work in grey and with any kind of color blindness."""
HEAT = "fff0aa ffbe3c f57319 d2231e 780028"
"""The colors over a photograph: pale yellow, orange, red, dark red."""


@cache
def interpolate_colors(stops: str) -> np.ndarray:
    """Return 256 colors between stops at equal distances, sRGB in 0..255."""
    colors = np.array([list(bytes.fromhex(stop)) for stop in stops.split()])
    positions = np.arange(len(colors))
    samples = np.linspace(0, len(colors) - 1, 256)
    channels = [np.interp(samples, positions, channel) for channel in colors.T]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def palette(dark: bool = False) -> np.ndarray:
    """Return the colors of weights from 0 to 1, (256, 3), for a light or dark page."""
    return interpolate_colors(NIGHT if dark else LIGHT)


@cache
def diverging() -> np.ndarray:
    """Return the colors of numbers from -1 to 1, (511, 3): orange, white and blue."""
    return np.concatenate([interpolate_colors(WARM)[:0:-1], palette()])


def heat_colors(dark: bool = False) -> np.ndarray:
    """Return the colors of the heat over a light or a dark photograph, (256, 3).

    Lightness falls monotonically. Over a dark photograph it rises.
    """
    return interpolate_colors(HEAT)[:: -1 if dark else 1]


def is_dark(pixels: UInt8[np.ndarray, "height width channel"]) -> bool:
    """Check whether the mean luma of a photograph is below `DARK_LUMA` (BT.601)."""
    means = pixels.mean((0, 1))
    luma = means @ (0.299, 0.587, 0.114) if len(means) == 3 else means[0]
    return float(luma) < DARK_LUMA


def hex_color(weight: float) -> str:
    """Return the color of a weight from -1 to 1 as #rrggbb; beyond, that of the end."""
    share = min(max(float(weight), -1.0), 1.0)
    red, green, blue = diverging()[255 + round(share * 255)]
    return f"#{red:02x}{green:02x}{blue:02x}"


def color_map(*, signed: bool = False) -> ListedColormap:
    """Return the colors from white at 0 to dark at 1, or those from -1 to 1."""
    from matplotlib.colors import ListedColormap

    return ListedColormap((diverging() if signed else palette()) / 255, name="regard")


def scale_end(shares: np.ndarray) -> float:
    """Return the end of a scale of shares.

    It is the greatest magnitude, or `UNIFORM_MULTIPLE` times a uniform share if that is
    more.
    """
    magnitudes = np.abs(shares)
    uniform = float(magnitudes.sum()) / max(magnitudes.size, 1)
    return max(float(magnitudes.max(initial=0.0)), UNIFORM_MULTIPLE * uniform)


def is_nearly_uniform(shares: np.ndarray) -> bool:
    """Check whether no share stands out.

    All have one sign, and the greatest is less than 1.5 times the mean, or of two or
    three shares, which differ less, 1.2 times. A single share is not uniform.
    """
    bound = (1.5 if shares.size > 3 else 1.2) * shares.mean()
    return shares.size > 1 and bool(shares.min() >= 0 and shares.max() < bound)


def has_uniform_rows(weights: np.ndarray) -> bool:
    """Check whether every row of a matrix with weights is nearly uniform."""
    rows = [row for row in weights if row.any()]
    return bool(rows) and all(map(is_nearly_uniform, rows))


def round_scale_end(shares: np.ndarray) -> float:
    """Return `scale_end`, rounded up to one digit, at most 1; 1 without a share."""
    return round_up(np.array(min(1.0, scale_end(shares))))


def choose_scale_end(weights: np.ndarray) -> float:
    """Choose the end of a matrix's scale.

    It is 1, so that pictures compare. Where all weights are small and would hardly be
    visible, it is the greatest weight, rounded up, but no less than `UNIFORM_MULTIPLE`
    times a uniform weight.
    """
    greatest = weights.max(initial=0.0)
    if greatest > 1.001:  # no shares, but effects in nats
        return round_up(weights)
    if not 0 < greatest < SMALL_WEIGHTS:
        return 1.0
    least = UNIFORM_MULTIPLE / weights.shape[-1]
    return round_up(np.array(min(1.0, max(greatest, least))))


def round_up(weights: np.ndarray) -> float:
    """Round the greatest weight up to one digit; 1 without a positive weight."""
    greatest = float(weights.max(initial=0.0))
    if greatest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(greatest))
    return float(f"{math.ceil(round(greatest / unit, 9)) * unit:.1g}")


MARGIN, LINE = 0.15, 0.17
"""The margin, and the height of a line of a title, in inches."""
MIN_TITLE_WIDTH = 4.6
"""The minimum width of a figure with a title, in inches."""
TITLE_LETTERS, LINE_LETTERS = 240, 2_000
"""The maximum of letters of a title, and of any line."""
LETTER = 0.65 / 72
"""The width of most letters as a share of their size, for inches and points."""


def measure(labels: Sequence[str], size: float) -> list[float]:
    """Return the widths of labels at a type size in points, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    renderer = FigureCanvasAgg(Figure(dpi=72)).get_renderer()
    fonts = FontProperties(size=size)
    return [
        renderer.get_text_width_height_descent(label, fonts, ismath=False)[0] / 72
        for label in labels
    ]


def grid_figure(
    title: str,
    rows: int,
    columns: int,
    size: tuple[float, float],
    *notes: str,
    **options: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with a title and a grid of axes, laid out by matplotlib.

    Args:
        title: The title; further lines are details.
        rows: The number of rows.
        columns: The number of columns.
        size: Width and height in inches.
        notes: Lines below the title.
        options: Options of matplotlib's `subplots`.
    """
    from matplotlib.figure import Figure

    lines = [shorten(line, TITLE_LETTERS) for line in (*title.split("\n"), *notes)]
    lines = list(filter(None, lines))
    width = max(size[0], MIN_TITLE_WIDTH)
    height = size[1]
    for line in lines:  # which are wrapped
        height += LINE * math.ceil(len(line) * TITLE_TYPE * LETTER / width)
    figure = Figure((width, height), facecolor=PAPER, dpi=100, layout="constrained")
    if lines:
        style: Any = {"x": 0.01, "ha": "left", "size": TITLE_TYPE, "wrap": True}
        figure.suptitle("\n".join(lines), **style)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def add_color_bar(
    figure: Figure, end: float, weights: np.ndarray, **options: Any
) -> None:
    """Add a color bar from 0, or -`end` for signed weights, to `end`.

    It ends in a point if weights are larger. The options are those of matplotlib.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    signed = bool((weights < 0).any())
    ticks = [-end, 0.0, end] if signed else [0.0, end / 2, end]
    bar = figure.colorbar(
        ScalarMappable(Normalize(ticks[0], end), color_map(signed=signed)),
        extend="max" if (weights > end + 1e-6).any() else "neither",
        **options,
    )
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    bar.outline.set(edgecolor=GRID, linewidth=0.6)  # pyright: ignore[reportCallIssue]


def show_image(axes: Axes, pixels: np.ndarray) -> None:
    """Show an image in a frame."""
    if pixels.shape[2] == 1:
        pixels = np.repeat(pixels, 3, 2)
    axes.imshow(pixels, interpolation="nearest", aspect="equal")
    axes.set(xticks=[], yticks=[])
