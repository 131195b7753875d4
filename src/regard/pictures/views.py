"""The views of head maps: matrix, lines, heads, shaded text, rollout, entropies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.heads import HeadMaps
from regard.maps.reductions import Numbers, average_heads, mean_entropies, rollout
from regard.pictures.canvas import (
    COLORS,
    INK,
    MARGIN,
    Canvas,
    choose_scale_end,
    plotting,
    round_up,
    widest,
)
from regard.pictures.chart import Grid, charts
from regard.pictures.heatmap import LABELS, heatmap, multiples
from regard.pictures.shaded_text import reading
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
            _draw_lines(
                canvas,
                [sample],
                [1.0],
                head,
            )
            canvas.text(
                name,
                x + SAMPLE + 0.06,
                middle,
                color=INK,
            )
        y += LINE * -(-len(names) // entries)

        target_edge = (canvas.width - width - GAP) / 2 + target_width
        source_edge = target_edge + GAP
        columns = (
            ("target (queries)", target_words, target_edge - 0.06, "right"),
            ("source (keys)", source_words, source_edge + 0.06, "left"),
        )
        for heading, words, x, align in columns:
            canvas.text(
                heading,
                x,
                y + LINE / 2,
                ha=align,
            )
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
            for row, column in pairs:
                start = (target_edge, middle + ROW * row)
                ends.append((start, (source_edge, middle + ROW * column)))
            shares = [float(head_weights[*pair]) for pair in pairs]
            _draw_lines(
                canvas,
                ends,
                shares,
                head,
            )
        return canvas.finish(y + LINE + ROW * max(len(source), len(target), 1))


def _draw_lines(
    canvas: Canvas, ends: Sequence[tuple], weights: Sequence[float], head: int
) -> None:
    """Draw the lines of one head."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    turn, index = divmod(head, len(COLORS))
    shares = np.minimum(weights, 1.0)
    opacities = FAINTEST + (1 - FAINTEST) * shares
    collection = LineCollection(
        list(ends),
        colors=[to_rgba(COLORS[index], opacity) for opacity in opacities],
        linewidths=WIDEST * shares,
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
AVERAGED = ("matrix", "reading")
"""The views of the mean of all heads."""


def select_heads(maps: HeadMaps, view: str, numbers: Numbers) -> HeadMaps:
    """Select the maps that a view shows: those with these numbers, or all.

    Raises:
        InputError: There is no map of a number, or no rollout of these.
    """
    if view == "rollout":
        if numbers is not None:
            raise InputError("a rollout combines all layers and heads; choose no map")
        if not maps.is_self_attention or len(maps.layers) < 2:
            raise InputError(
                "the view rollout needs several self-attention layers with residuals, "
                "which this run lacks; use the view heads, or for an encoder-decoder "
                "the role encoder"
            )
        layers = maps.by_layer()
        mean = average_heads(layers[-1])
        titles = "all layers, rolled out", "the last layer, mean of its heads"
        return maps.with_maps(dict(zip(titles, (rollout(layers), mean), strict=True)))
    if view in AVERAGED:
        return maps.with_maps({"": maps.mean(numbers).weights})
    count = len(maps.weights)
    if view == "lines" and numbers is None and count > MAX_HEADS:
        numbers = range(count - maps.layers[-1], count)
    return maps if numbers is None else maps.select(numbers)


def draw_heads(
    maps: HeadMaps,
    view: str,
    places: tuple[slice, slice],
    title: str,
    scale: float | None = None,
    threshold: float | None = None,
) -> tuple[str, Figure]:
    """Draw a view of selected maps.

    Args:
        maps: The maps.
        view: The view.
        places: The source and target positions.
        title: The title.
        scale: The end of the scale. Default: by the weights.
        threshold: The minimum weight with a line. Default: 0.15.

    Returns:
        The title with what was left out, and the figure.

    Raises:
        InputError: It has more than `LABELS` labels per side.
    """
    source, target = places
    check_size(source.stop - source.start, target.stop - target.start, PART_REMEDY)
    targets, sources = maps.weights.shape[1:]
    if places != (slice(0, sources), slice(0, targets)):
        separator = ", " if "\n" in title else "\n"
        title += (
            f"{separator}source {source.start}:{source.stop}, "
            f"target {target.start}:{target.stop}"
        )
    if scale is None:
        choose_end = choose_scale_end if view in AVERAGED else round_up
        scale = choose_end(maps.weights)
    part = maps.part(source, target)
    sides = part.source.pieces, part.target.pieces
    if view == "matrix":
        figure = heatmap(part.mean(), title=title, vmax=scale)
    elif view == "reading":
        first = target.start - source.start if maps.is_self_attention else None
        figure = reading(
            part.mean(),
            title=title,
            vmax=scale,
            first=first,
        )
    elif view == "lines":
        least = THRESHOLD if threshold is None else threshold
        figure = lines(
            part.weights,
            *sides,
            part.names,
            threshold=least,
            title=title,
        )
    else:
        names, layers = part.names, part.layers
        figure = multiples(
            part.weights,
            names,
            layers,
            sides,
            vmax=scale,
            title=title,
        )
    return title, figure


def check_size(source: int, target: int, remedy: str) -> None:
    """Check that a picture can have so many labels.

    Raises:
        InputError: It can't, with a remedy.
    """
    if max(source, target) > LABELS:
        raise InputError(
            f"the map has {target} x {source} positions; at most {LABELS} per side are drawn: {remedy}"
        )


def draw_entropies(maps: HeadMaps) -> Figure:
    """Plot a row per layer and a cell per head: `mean_entropies`, in bits.

    The scale goes from 0 (one source) to log2 of the number of keys (uniform), as the
    title notes. A head without weights has a dash.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: There is no layer.
    """
    maximum = math.log2(max(len(maps.source.pieces), 2))
    title = f"entropy of each head, 0 to {maximum:.2f} bits"
    rows = {}
    for number, layer in enumerate(maps.by_layer()):
        rows[f"layer {number}"] = mean_entropies(layer).tolist()
    return charts(
        [
            Grid(
                title,
                "head",
                rows,
                maximum,
            )
        ]
    )
