"""The views of head maps: matrix, lines, heads, shaded text, rollout, entropies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.heads import HeadMaps
from regard.maps.reductions import average_heads, mean_entropies, rollout
from regard.pictures.chart import Grid, charts
from regard.pictures.heatmap import heatmap, multiples
from regard.pictures.shaded_text import reading
from regard.pictures.style import (
    COLORS,
    INK,
    MUTED,
    choose_scale_end,
    choose_sizes,
    plotting,
    round_up,
)
from regard.pictures.text import (
    MIN_TITLE_WIDTH,
    Word,
    draw_text,
    explain_signs,
    layout_title,
    measure,
    new_figure,
)
from regard.pictures.write import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN, ROW, GAP, LINE, TYPE = 0.15, 0.21, 2.4, 0.2, 9.0
"""The margin, the height of a piece, the gap between the copies and the height of a
line above them, in inches; the type size in points."""
STYLES = "-", (0, (3, 1.5))
"""Line styles: solid for the first heads, one colour each, then dashed with the same
colours."""
MAX_LINES = len(COLORS) * len(STYLES)
WIDEST, FAINTEST = 3.6, 0.3
"""The width in points at weight 1; the opacity at weight 0."""
SAMPLE, ENTRY = 0.3, 1.6
"""A sample line of the legend, and the width of an entry, in inches."""


def lines(
    weights: Float[np.ndarray, "head target source"],
    source: Sequence[str],
    target: Sequence[str],
    names: Sequence[str],
    *,
    threshold: float = 0.15,
    title: str = "",
) -> Figure:
    """Plot attention as lines between targets at the left and sources at the right.

    A line's width and opacity grow with its weight. Weights below `threshold` have no
    line, and the picture notes the threshold.

    Raises:
        InputError: There are too many heads, matplotlib is not installed, or no
            installed font has a character.
    """
    if len(weights) > MAX_LINES:
        raise InputError(
            f"{len(weights)} heads are too many for lines; choose at most {MAX_LINES}"
        )
    with plotting():
        figure = new_figure()
        readers, read = (measure(figure, labels, TYPE) for labels in (target, source))
        note = f"a line is as wide as its weight; weights under {threshold:g} have none"
        note += "" if (weights >= threshold).any() else ", and no weight is larger"
        sides = [
            max((word.width for word in side), default=0.2) for side in (readers, read)
        ]
        width = max(2 * MARGIN + max(sum(sides) + GAP, 2 * ENTRY), MIN_TITLE_WIDTH)
        heading = layout_title(
            figure, title, width - 2 * MARGIN, note, explain_signs(source, target)
        )
        entries = max(1, int((width - 2 * MARGIN) / ENTRY))
        head = heading.height + LINE * -(-len(names) // entries)
        tall = ROW * max(len(source), len(target), 1)
        top = MARGIN + tall + LINE
        figure.set_size_inches(width, top + head + MARGIN)
        x = (width - sum(sides) - GAP) / 2 + sides[0]
        _draw_legend(figure, names, entries, heading.draw(figure, MARGIN, top + head))
        _draw_side(figure, ["target (queries)", *readers], x, "right", top)
        _draw_side(figure, ["source (keys)", *read], x + GAP, "left", top)
        _draw_head_lines(figure, weights, threshold, (x, x + GAP), top - LINE)
    return figure


def _draw_legend(
    figure: Figure, names: Sequence[str], entries: int, top: float
) -> None:
    """Draw the legend, with `entries` entries per line."""
    for number, name in enumerate(names):
        row, column = divmod(number, entries)
        x, middle = MARGIN + ENTRY * column, top - LINE * (row + 0.5)
        _draw_lines(figure, [((x, middle), (x + SAMPLE, middle))], [1.0], number)
        draw_text(
            figure,
            name,
            (x + SAMPLE + 0.06, middle),
            size=choose_sizes(1).small,
            color=INK,
        )


def _draw_side(
    figure: Figure, words: Sequence[Word | str], across: float, side: str, top: float
) -> None:
    """Draw one copy of the text below its heading."""
    away = -0.06 if side == "right" else 0.06
    for number, word in enumerate(words):
        middle = top - LINE / 2 if number == 0 else top - LINE - ROW * (number - 0.5)
        if isinstance(word, str):
            draw_text(
                figure,
                word,
                (across + away, middle),
                size=choose_sizes(1).small,
                color=MUTED,
                ha=side,
            )
        else:
            draw_text(
                figure,
                word.label,
                (across + away, middle),
                size=TYPE,
                color=INK,
                ha=side,
                family=word.fonts,
            )


def _draw_head_lines(
    figure: Figure,
    weights: Float[np.ndarray, "head target source"],
    threshold: float,
    across: tuple[float, float],
    top: float,
) -> None:
    """Draw the lines of each head. Lines from one piece start at different heights."""
    spread = ROW * 0.6 / max(len(weights), 1)
    for head, head_weights in enumerate(weights):
        down = ROW / 2 + spread * (head - (len(weights) - 1) / 2)
        pairs = [
            (int(t), int(s))
            for t, s in np.argwhere(head_weights >= threshold)
            if head_weights[t, s] > 0
        ]
        pairs.sort(key=lambda pair, head_weights=head_weights: head_weights[pair])
        ends = [
            ((across[0], top - ROW * t - down), (across[1], top - ROW * s - down))
            for t, s in pairs
        ]
        _draw_lines(figure, ends, [float(head_weights[pair]) for pair in pairs], head)


def _draw_lines(
    figure: Figure, ends: Sequence[tuple], weights: Sequence[float], head: int
) -> None:
    """Draw the lines of one head, the greatest weight last and thus on top."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    colour, style = (
        COLORS[head % len(COLORS)],
        STYLES[head // len(COLORS) % len(STYLES)],
    )
    clipped = [min(weight, 1.0) for weight in weights]
    figure.add_artist(
        LineCollection(
            list(ends),
            colors=[
                to_rgba(colour, FAINTEST + (1 - FAINTEST) * weight)
                for weight in clipped
            ],
            linewidths=[WIDEST * weight for weight in clipped],
            linestyles=[style],
            capstyle="round" if style == "-" else "butt",
            transform=figure.dpi_scale_trans,
        )
    )


if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""The maximum of heads drawn as lines by default; if there are more, only the last
layer's are drawn."""
THRESHOLD = 0.15
"""The default of the minimum weight with a line."""
PART_REMEDY = "give page, words, source or target"
PAGE_REMEDY = "write a .html page, without a map"
"""The remedies for a picture that would be too large: for views with and without
parts."""
Numbers = Sequence[int] | None


@dataclass(frozen=True)
class Part:
    """A part of head maps that one picture shows.

    vmax: the weight with the darkest colour.
    threshold: the minimum weight with a line.
    first: for self-attention, the source position of the first target.
    """

    maps: HeadMaps
    title: str
    vmax: float
    threshold: float
    first: int | None


@dataclass(frozen=True)
class HeadView:
    """A view: its choice of maps (None: all), and its drawing of a part of them.

    end: from weights to the end of their scale.
    averaged: whether it shows the mean of the heads.
    breaks_lines: whether its text may have any length, so that only targets are divided
    among pages.
    """

    select: Callable[[HeadMaps, Numbers], HeadMaps]
    draw: Callable[[Part], Figure]
    end: Callable[[np.ndarray], float]
    averaged: bool = False
    breaks_lines: bool = False

    def parts(
        self,
        maps: HeadMaps,
        places: tuple[slice, slice],
        *,
        title: str,
        page: int | None = None,
        scale: float | None = None,
        threshold: float | None = None,
    ) -> list[Part]:
        """Divide maps into parts for one picture each, all on one scale.

        Args:
            maps: The maps.
            places: The source and target positions.
            title: The title.
            page: The most positions of each side in a part.
            scale: The end of the scale. Default: by the weights.
            threshold: The minimum weight with a line.

        Raises:
            InputError: A part has more than `LABELS` labels per side.
        """
        source, target = places
        pairs = [
            (across, down)
            for down in _pages(target, page)
            for across in ([source] if self.breaks_lines else _pages(source, page))
        ]
        default = self.end(maps.weights)
        parts = []
        for across, down in pairs:
            check_size(across.stop - across.start, down.stop - down.start, PART_REMEDY)
            part = Part(
                maps.part(across, down),
                describe_positions(title, across, down),
                default if scale is None else scale,
                THRESHOLD if threshold is None else threshold,
                down.start - across.start if maps.is_self_attention else None,
            )
            is_complete = pairs == [
                (slice(0, len(maps.source.pieces)), slice(0, len(maps.target.pieces)))
            ]
            parts.append(replace(part, title=title) if is_complete else part)
        return parts


def describe_positions(title: str, source: slice, target: slice) -> str:
    """Add the selected positions to the details of a title."""
    places = f"source {source.start}:{source.stop}, target {target.start}:{target.stop}"
    return f"{title}, {places}" if "\n" in title else f"{title}\n{places}"


def check_size(source: int, target: int, instead: str) -> None:
    """Check that a picture can have so many labels; `instead` is the remedy.

    Raises:
        InputError: It can't.
    """
    if max(source, target) > LABELS:
        raise InputError(
            f"the map has {target} x {source} positions; at most {LABELS} per side are drawn: {instead}"
        )


def draw_entropies(bits: Sequence[Float[np.ndarray, " head"]], read: int) -> Figure:
    """Plot a row per layer and a cell per head: `mean_entropies`, in bits.

    The scale goes from 0 (one source) to log2 of the `read` sources (uniform), as the
    title notes. A head without weights has a dash.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: There is no layer.
    """
    maximum = math.log2(max(read, 2))
    rows = {f"layer {number}": row.tolist() for number, row in enumerate(bits)}
    return charts(
        [Grid(f"entropy of each head, 0 to {maximum:.2f} bits", "head", rows, maximum)]
    )


def draw_head_entropies(maps: HeadMaps) -> Figure:
    """Plot the entropy of every head of maps.

    Raises:
        InputError: As `draw_entropies`.
        ValueError: As `draw_entropies`.
    """
    return draw_entropies(
        [mean_entropies(layer) for layer in maps.by_layer()], len(maps.source.pieces)
    )


def _pages(places: slice, size: int | None) -> list[slice]:
    size = size or max(1, places.stop - places.start)
    firsts = range(places.start, places.stop, size) or [places.start]
    return [slice(first, min(first + size, places.stop)) for first in firsts]


def _mean(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps.with_maps({"": maps.mean(numbers).weights})


def _select(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps if numbers is None else maps.select(numbers)


def _select_few(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Select the last layer of many heads: more lines cannot be told apart."""
    count = len(maps.weights)
    return (
        maps.select(range(count - maps.layers[-1], count))
        if numbers is None and count > FEW
        else _select(maps, numbers)
    )


def _roll_out(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Return the rollout through all layers, and the mean of the last.

    Raises:
        InputError: These are not self-attention layers of one text.
    """
    if numbers is not None:
        raise InputError("a rollout combines all layers and heads; choose no map")
    if not maps.is_self_attention or len(maps.layers) < 2:
        raise InputError(
            "the view rollout needs several self-attention layers with residuals, which this run lacks; use the view "
            "heads, or for an encoder-decoder the role encoder"
        )
    layers = maps.by_layer()
    return maps.with_maps(
        {
            "all layers, rolled out": rollout(layers),
            "the last layer, mean of its heads": average_heads(layers[-1]),
        }
    )


def _matrix(part: Part) -> Figure:
    return heatmap(part.maps.mean(), title=part.title, vmax=part.vmax)


def _draw_lines_view(part: Part) -> Figure:
    sides = part.maps.source.pieces, part.maps.target.pieces
    return lines(
        part.maps.weights,
        *sides,
        part.maps.names,
        threshold=part.threshold,
        title=part.title,
    )


def _reading(part: Part) -> Figure:
    return reading(part.maps.mean(), title=part.title, vmax=part.vmax, first=part.first)


def _heads(part: Part) -> Figure:
    maps = part.maps
    sides = maps.source.pieces, maps.target.pieces
    return multiples(
        maps.weights, maps.names, maps.layers, sides, vmax=part.vmax, title=part.title
    )


VIEWS = {
    "matrix": HeadView(_mean, _matrix, choose_scale_end, averaged=True),
    "lines": HeadView(_select_few, _draw_lines_view, round_up),
    "heads": HeadView(_select, _heads, round_up),
    "reading": HeadView(
        _mean, _reading, choose_scale_end, averaged=True, breaks_lines=True
    ),
    "rollout": HeadView(_roll_out, _heads, round_up),
}
"""The views of positions; `draw_head_entropies` draws every head as a number."""
