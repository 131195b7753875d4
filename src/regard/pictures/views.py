"""The views of head maps: matrix, lines, heads, shaded text, rollout, entropies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.heads import HeadMaps
from regard.maps.reductions import average_heads, mean_entropies, rollout
from regard.pictures.canvas import MARGIN, Canvas, widest
from regard.pictures.chart import Grid, charts
from regard.pictures.heatmap import LABELS, heatmap, multiples
from regard.pictures.shaded_text import reading
from regard.pictures.style import COLORS, INK, choose_scale_end, plotting, round_up
from regard.pictures.text import explain_signs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW, GAP, LINE, TYPE = 0.21, 2.4, 0.2, 9.0
"""The height of a piece, the gap between the copies and the height of a line above
them, in inches; the type size in points."""
STYLES = "-", (0, (3, 1.5))
"""Line styles: solid for the first heads, one color each, then dashed with the same
colors."""
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
    note = f"a line is as wide as its weight; weights under {threshold:g} have none"
    if not (weights >= threshold).any():
        note += ", and no weight is larger"
    with plotting():
        canvas = Canvas()
        target_words = canvas.measure(target, TYPE)
        source_words = canvas.measure(source, TYPE)
        target_width = widest(target_words, 0.2)
        width = target_width + widest(source_words, 0.2)
        y = canvas.add_title(
            title,
            max(width + GAP, 2 * ENTRY, 4.3),
            note,
            explain_signs(source, target),
        )

        entries = int((canvas.width - 2 * MARGIN) / ENTRY)
        for head, name in enumerate(names):
            row, column = divmod(head, entries)
            x = MARGIN + ENTRY * column
            middle = y + LINE * (row + 0.5)
            sample = ((x, middle), (x + SAMPLE, middle))
            _draw_lines(canvas, [sample], [1.0], head)
            canvas.text(name, x + SAMPLE + 0.06, middle, color=INK)
        y += LINE * -(-len(names) // entries)

        target_edge = (canvas.width - width - GAP) / 2 + target_width
        source_edge = target_edge + GAP
        columns = (
            ("target (queries)", target_words, target_edge - 0.06, "right"),
            ("source (keys)", source_words, source_edge + 0.06, "left"),
        )
        for heading, words, x, align in columns:
            canvas.text(heading, x, y + LINE / 2, ha=align)
            for index, word in enumerate(words):
                canvas.text(
                    word,
                    x,
                    y + LINE + ROW * (index + 0.5),
                    size=TYPE,
                    color=INK,
                    ha=align,
                )

        # lines from one piece start at different heights
        spread = ROW * 0.6 / max(len(weights), 1)
        center = (len(weights) - 1) / 2
        for head, head_weights in enumerate(weights):
            middle = y + LINE + ROW / 2 + spread * (head - center)
            visible = (head_weights >= threshold) & (head_weights > 0)
            # the greatest weight is drawn last and thus on top
            pairs = sorted(np.argwhere(visible), key=lambda pair: head_weights[*pair])
            ends = []
            shares = []
            for row, column in pairs:
                start = (target_edge, middle + ROW * row)
                end = (source_edge, middle + ROW * column)
                ends.append((start, end))
                shares.append(float(head_weights[row, column]))
            _draw_lines(canvas, ends, shares, head)
        rows = max(len(source), len(target), 1)
        return canvas.finish(y + LINE + ROW * rows)


def _draw_lines(
    canvas: Canvas, ends: Sequence[tuple], weights: Sequence[float], head: int
) -> None:
    """Draw the lines of one head."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    turn, index = divmod(head, len(COLORS))
    colors = []
    widths = []
    for weight in weights:
        clipped = min(weight, 1.0)
        opacity = FAINTEST + (1 - FAINTEST) * clipped
        colors.append(to_rgba(COLORS[index], opacity))
        widths.append(WIDEST * clipped)
    collection = LineCollection(
        list(ends),
        colors=colors,
        linewidths=widths,
        linestyles=[STYLES[turn]],
        capstyle="butt" if turn else "round",
        transform=canvas.inches,
    )
    canvas.figure.add_artist(collection)


MAX_HEADS = 4
"""The maximum of heads drawn as lines by default; if there are more, only the last
layer's are drawn."""
THRESHOLD = 0.15
"""The default of the minimum weight with a line."""
PART_REMEDY = "give words, source or target"
PAGE_REMEDY = "write a .html page, without a map"
"""The remedies for a picture that would be too large: for views with and without
parts."""
Numbers = Sequence[int] | None


@dataclass(frozen=True)
class Part:
    """A part of head maps that one picture shows.

    Attributes:
        maps: The part.
        title: The title.
        vmax: The weight with the darkest color.
        threshold: The minimum weight with a line.
        first: For self-attention, the source position of the first target.
    """

    maps: HeadMaps
    title: str
    vmax: float
    threshold: float
    first: int | None


@dataclass(frozen=True)
class HeadView:
    """A view of head maps.

    Attributes:
        select: Selects the maps with these numbers (None: all).
        draw: Draws a part of them.
        end: Returns the end of the scale of weights.
        averaged: Whether it shows the mean of the heads.
    """

    select: Callable[[HeadMaps, Numbers], HeadMaps]
    draw: Callable[[Part], Figure]
    end: Callable[[np.ndarray], float]
    averaged: bool = False

    def part(
        self,
        maps: HeadMaps,
        places: tuple[slice, slice],
        *,
        title: str,
        scale: float | None = None,
        threshold: float | None = None,
    ) -> Part:
        """Select the part of maps that a picture shows.

        Args:
            maps: The maps.
            places: The source and target positions.
            title: The title.
            scale: The end of the scale. Default: by the weights.
            threshold: The minimum weight with a line.

        Raises:
            InputError: It has more than `LABELS` labels per side.
        """
        source, target = places
        sources = len(maps.source.pieces)
        targets = len(maps.target.pieces)
        check_size(source.stop - source.start, target.stop - target.start, PART_REMEDY)
        if places != (slice(0, sources), slice(0, targets)):
            separator = ", " if "\n" in title else "\n"
            title += (
                f"{separator}source {source.start}:{source.stop}, "
                f"target {target.start}:{target.stop}"
            )
        if scale is None:
            scale = self.end(maps.weights)
        if threshold is None:
            threshold = THRESHOLD
        first = None
        if maps.is_self_attention:
            first = target.start - source.start
        return Part(
            maps.part(source, target),
            title=title,
            vmax=scale,
            threshold=threshold,
            first=first,
        )


def check_size(source: int, target: int, remedy: str) -> None:
    """Check that a picture can have so many labels.

    Raises:
        InputError: It can't, with a remedy.
    """
    if max(source, target) > LABELS:
        raise InputError(
            f"the map has {target} x {source} positions; at most {LABELS} per side are drawn: {remedy}"
        )


def draw_entropies(bits: Sequence[Float[np.ndarray, " head"]], keys: int) -> Figure:
    """Plot a row per layer and a cell per head: `mean_entropies`, in bits.

    The scale goes from 0 (one source) to log2 of the number of keys (uniform), as the
    title notes. A head without weights has a dash.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: There is no layer.
    """
    maximum = math.log2(max(keys, 2))
    title = f"entropy of each head, 0 to {maximum:.2f} bits"
    rows = {}
    for number, layer_bits in enumerate(bits):
        rows[f"layer {number}"] = layer_bits.tolist()
    return charts([Grid(title, "head", rows, maximum)])


def draw_head_entropies(maps: HeadMaps) -> Figure:
    """Plot the entropy of every head of maps.

    Raises:
        InputError: As `draw_entropies`.
        ValueError: As `draw_entropies`.
    """
    bits = [mean_entropies(layer) for layer in maps.by_layer()]
    return draw_entropies(bits, len(maps.source.pieces))


def _mean(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps.with_maps({"": maps.mean(numbers).weights})


def _select(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps if numbers is None else maps.select(numbers)


def _select_few(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Select the last layer of many heads: more lines cannot be told apart."""
    count = len(maps.weights)
    if numbers is None and count > MAX_HEADS:
        numbers = range(count - maps.layers[-1], count)
    return _select(maps, numbers)


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
    return heatmap(
        part.maps.mean(),
        title=part.title,
        vmax=part.vmax,
    )


def _lines(part: Part) -> Figure:
    maps = part.maps
    return lines(
        maps.weights,
        maps.source.pieces,
        maps.target.pieces,
        maps.names,
        threshold=part.threshold,
        title=part.title,
    )


def _reading(part: Part) -> Figure:
    return reading(
        part.maps.mean(),
        title=part.title,
        vmax=part.vmax,
        first=part.first,
    )


def _heads(part: Part) -> Figure:
    maps = part.maps
    return multiples(
        maps.weights,
        maps.names,
        maps.layers,
        (maps.source.pieces, maps.target.pieces),
        vmax=part.vmax,
        title=part.title,
    )


VIEWS = {
    "matrix": HeadView(_mean, _matrix, choose_scale_end, averaged=True),
    "lines": HeadView(_select_few, _lines, round_up),
    "heads": HeadView(_select, _heads, round_up),
    "reading": HeadView(_mean, _reading, choose_scale_end, averaged=True),
    "rollout": HeadView(_roll_out, _heads, round_up),
}
"""The views of positions; `draw_head_entropies` draws every head as a number."""
