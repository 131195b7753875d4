"""Views of the maps of heads: matrix, reading, lines, heads, rollout and entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.heads import HeadMaps
from regard.maps.reductions import (
    ROLLOUT,
    Numbers,
    average_heads,
    mean_entropies,
    refuse_maps,
    rollout,
)
from regard.pictures.canvas import (
    COLORS,
    MUTED,
    choose_scale_end,
    grid_figure,
    plotting,
    round_up,
)
from regard.pictures.chart import Grid, charts
from regard.pictures.heatmap import check_size, heatmap, measure_labels, multiples
from regard.pictures.shaded_text import reading
from regard.pictures.text import explain_signs, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, GAP, TYPE = 0.21, 2.4, 9.0
"""The height of a label and the gap between targets and sources, in inches; the type
size in points."""
STYLES = "-", (0, (3, 1.5))
"""Line styles: solid for the first heads, one color each, then dashed with the same
colors."""
MAX_LINES = len(COLORS) * len(STYLES)
WIDEST, FAINTEST = 3.6, 0.3
"""The width of a line in points at weight 1; its opacity at weight 0."""
LEGEND_COLUMNS = 3
MAX_HEADS = 4
"""The maximum number of heads drawn as lines by default. If there are more, only those
of the last layer are drawn."""
THRESHOLD = 0.15
"""The default of the minimum weight with a line."""
PART_REMEDY = "give words, source or target"
PAGE_REMEDY = "write a .html page, without a map"
"""The advice if a picture would be too large, for views that can show a part of a map
and for others."""
AVERAGED = ("matrix", "reading")
"""The views that show the mean of all heads."""


def lines(
    weights: Float[np.ndarray, "head target source"],
    source: Sequence[str],
    target: Sequence[str],
    names: Sequence[str],
    *,
    threshold: float = THRESHOLD,
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
    notes = note, explain_signs(source, target)
    count = max(len(source), len(target), 1)
    width = GAP + 1 + sum(measure_labels(side, TYPE) for side in (source, target))
    height = ROW * (count + 2 + math.ceil(len(names) / LEGEND_COLUMNS))
    with plotting(title, *source, *target, *names):
        figure, ((axes,),) = grid_figure(title, 1, 1, (width, height), *notes)
        axes.set(xlim=(0, 1), ylim=(count, -1))
        axes.axis("off")
        columns = (
            ("target (queries)", target, -0.02, "right"),
            ("source (keys)", source, 1.02, "left"),
        )
        for heading, labels, x, align in columns:
            axes.text(x, -0.5, heading, ha=align, va="center", color=MUTED)
            style: Any = {"size": TYPE, "ha": align, "va": "center"}
            for row, label in enumerate(labels):
                axes.text(x, row + 0.5, shorten(label), **style)
        for head, (name, head_weights) in enumerate(zip(names, weights, strict=True)):
            # heads are shifted so that lines between the same labels do not overlap
            shift = 0.6 * (head - (len(names) - 1) / 2) / len(names)
            visible = np.where(head_weights >= threshold, head_weights, 0.0)
            style_index, color_index = divmod(head, len(COLORS))
            style = {"color": COLORS[color_index], "linestyle": STYLES[style_index]}
            # an empty line for the legend
            axes.plot([], [], label=name, linewidth=WIDEST / 2, **style)
            _draw_lines(axes, visible, shift, **style)
        figure.legend(loc="outside lower left", ncols=LEGEND_COLUMNS)
    return figure


def _draw_lines(
    axes: Axes, weights: np.ndarray, shift: float, color: str, linestyle: Any
) -> None:
    """Draw the lines of one head; the greatest weight comes last and is on top."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    pairs = sorted(np.argwhere(weights > 0), key=lambda pair: weights[*pair])
    shares = np.array([min(weights[*pair], 1.0) for pair in pairs])
    ends = [
        ((0, row + 0.5 + shift), (1, column + 0.5 + shift)) for row, column in pairs
    ]
    collection = LineCollection(
        ends,
        colors=[to_rgba(color, FAINTEST + (1 - FAINTEST) * share) for share in shares],
        linewidths=WIDEST * shares,
        linestyles=[linestyle],
    )
    axes.add_collection(collection)


def select_heads(maps: HeadMaps, view: str, numbers: Numbers) -> HeadMaps:
    """Select the maps that a view shows.

    Args:
        maps: All maps.
        view: The name of the view.
        numbers: The numbers of the chosen maps. Default: all, or for lines those of the
            last layer if there are more than `MAX_HEADS`.

    Returns:
        The chosen maps; their mean for the views in `AVERAGED`; the rollout beside the
        mean of the last layer for `rollout`.

    Raises:
        InputError: There is no map with a number, or these maps have no rollout.
    """
    if view == "rollout":
        refuse_maps(numbers, ROLLOUT)
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
        maps: The maps that `select_heads` returned.
        view: The name of the view.
        places: The source and target positions to draw.
        scale: The end of the color scale. Default: it depends on the weights.
        threshold: The minimum weight with a line. Default: `THRESHOLD`.

    Returns:
        The title, with the positions if only a part is drawn, and the figure.

    Raises:
        InputError: There are more than `LABELS` positions per side.
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
    style: Any = {"title": title, "vmax": scale}
    if view == "matrix":
        return title, heatmap(part.mean(), **style)
    if view == "reading":
        first = target.start - source.start if maps.is_self_attention else None
        return title, reading(part.mean(), first=first, **style)
    if view == "lines":
        minimum = THRESHOLD if threshold is None else threshold
        weights = part.weights
        return title, lines(weights, *sides, part.names, threshold=minimum, title=title)
    return title, multiples(part.weights, part.names, part.layers, sides, **style)


def draw_entropies(maps: HeadMaps) -> Figure:
    """Plot the mean entropy of each head, in bits: a row per layer, a cell per head.

    The scale goes from 0 (a single key) to log2 of the number of keys (uniform
    weights), as the title notes. A head without weights has a dash.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: There is no layer.
    """
    maximum = math.log2(max(len(maps.source.pieces), 2))
    title = f"entropy of each head, 0 to {maximum:.2f} bits"
    rows = {}
    for number, layer in enumerate(maps.by_layer()):
        rows[f"layer {number}"] = mean_entropies(layer).tolist()
    return charts([Grid(title, "head", rows, maximum)])
