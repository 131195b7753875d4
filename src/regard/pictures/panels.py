"""Figures made of panels: positional encodings, a spectrogram, a tape, an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from regard.maps.lookups import TapeUse
from regard.pictures.canvas import (
    COLORS,
    GRID,
    SMALL_TYPE,
    add_color_bar,
    color_map,
    grid_figure,
    hex_color,
    is_nearly_uniform,
    plotting,
    round_scale_end,
    show_image,
)
from regard.pictures.heatmap import label_axes
from regard.pictures.text import shorten_middle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = 4
"""The maximum of dimensions drawn as curves."""
Encoding = Float[np.ndarray, "_position _dimension"]


def positions(encodings: Mapping[str, Encoding]) -> Figure:
    """Plot positional encodings, one per row.

    A row has the values (dimension by position), some dimensions as curves, and the dot
    product of each pair of positions. Orange is negative, blue positive; each scale
    ends at the greatest magnitude.

    Raises:
        InputError: matplotlib is not installed.
    """
    with plotting(*encodings):
        count = len(encodings)
        figure, rows = grid_figure("", count, 3, (9.9, 2.8 * count))
        for row, (name, encoding) in zip(rows, encodings.items(), strict=True):
            encoding_axes, curve_axes, product_axes = row
            maps = (
                (encoding_axes, encoding.T, f"{name}: encoding", "dimension"),
                (product_axes, encoding @ encoding.T, "dot products", "position"),
            )
            for axes, values, title, side in maps:
                end = float(np.abs(values).max(initial=0.0)) or 1.0
                colors = color_map(signed=True)
                image = axes.imshow(values, cmap=colors, vmin=-end, vmax=end)
                figure.colorbar(image, ax=axes, ticks=[-end, 0, end], format="%.3g")
                axes.set(title=title, ylabel=side)
            curve_axes.set_title("as curves")
            curve_axes.set_prop_cycle(color=COLORS)
            step = -(-encoding.shape[1] // CURVES)
            for dimension in range(0, encoding.shape[1], step):
                curve_axes.plot(encoding[:, dimension], label=f"dimension {dimension}")
            curve_axes.legend(loc="upper left", bbox_to_anchor=(1, 1), handlelength=1)
            curve_axes.grid()
            for axes in row:
                axes.set_xlabel("position")
                axes.locator_params(integer=True, nbins=5)
    return figure


SOUND_HEIGHT, ROW = 1.3, 0.17
"""The heights of the spectrogram and of a row of weights, in inches."""
MAX_TOKENS = 400
"""The maximum of tokens."""


def spectrogram(
    shades: Float[np.ndarray, "frame band"],
    weights: Float[np.ndarray, "token key"],
    tokens: Sequence[str],
    *,
    times: tuple[float, float],
    title: str = "",
) -> Figure:
    """Plot a sound, and where in time each token attends.

    Args:
        shades: The sound from 0, white, to 1, dark, low bands at the bottom.
        weights: A row for each token.
        times: The seconds of a frame, and of a key.
        title: The title; further lines are details.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
        ValueError: The numbers of tokens and rows differ or are too large.
    """
    count = len(tokens)
    if not count == len(weights) <= MAX_TOKENS:
        raise ValueError(
            f"{count} tokens for {len(weights)} rows; expected one each, at most "
            f"{MAX_TOKENS}"
        )
    ends = len(shades) * times[0], weights.shape[1] * times[1]
    last = max(ends)
    heights = SOUND_HEIGHT, ROW * max(count, 4)
    size = min(max(2.2 * last, 4.0), 24.0) + 1.5, sum(heights) + 1.2
    with plotting(title, *tokens):
        figure, axes = grid_figure(
            title, 2, 1, size, sharex=True, height_ratios=heights
        )
        sound, reads = axes[:, 0]
        scale = {"cmap": color_map(), "vmin": 0.0}
        sound.imshow(shades.T[::-1], extent=(0, ends[0], 0, 1), vmax=1.0, **scale)
        sound.set(ylabel="frequency →", yticks=[])
        reads.set_yticks([])
        label_axes(reads, (), tokens, SMALL_TYPE)
        if weights.size:
            end = round_scale_end(weights)
            reads.imshow(weights, extent=(0, ends[1], count, 0), vmax=end, **scale)
            add_color_bar(figure, end, weights, ax=reads)
        reads.set(xlabel="seconds →", ylabel="← tokens")
        reads.set_xlim(0, last)
    return figure


def tape(use: TapeUse, *, title: str = "") -> Figure:
    """Plot the inputs, outputs, writes and reads of a machine with a tape.

    Inputs are beside outputs; below them are the writes of each head beside its reads,
    from white at 0 to dark at 1, on the used rows of the tape. Outputs without a target
    are grey.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    columns = []
    for bits, values, name, heads in (
        ("inputs", use.inputs, "writes to the tape", use.writing),
        ("outputs", use.outputs, "reads from the tape", use.reading),
    ):
        column = [(bits, "bit", values.T)]
        for number, weights in enumerate(heads, 1):
            suffix = f" (head {number})" if len(heads) > 1 else ""
            column.append((name + suffix, "row", weights.T[: use.rows]))
        columns.append(column)
    rows = list(zip_longest(*columns))
    steps = len(use.inputs)
    cell = min(0.2, 6.0 / max(steps, 1))
    heights = [
        min(3.6, max(0.2, *(cell * len(panel[2]) for panel in row if panel)))
        for row in rows
    ]  # many rows have low cells
    size = 2 * cell * steps + 2, sum(heights) + 0.8 * len(rows) + 0.5
    key = "white 0, dark 1"
    if np.isnan(use.outputs).any():
        key += ", grey: no target"
    with plotting(title):
        figure, axes = grid_figure(
            title, len(rows), 2, size, key, height_ratios=heights
        )
        for place, panel in zip(axes.flat, chain(*rows), strict=True):
            if panel is None:
                place.remove()
                continue
            name, side, values = panel
            colors = color_map().with_extremes(bad=GRID)
            place.imshow(values, cmap=colors, vmin=0.0, vmax=1.0)
            place.set(title=name, xlabel="step", ylabel=side)
            place.locator_params(integer=True, nbins=6)
    return figure


SIDE, LABEL = 0.95, 0.2
"""The room for an image, and the height of the line below it, in inches."""
NO_IMAGE = "nearly even: no support image is preferred"


def layer_names(count: int) -> tuple[str, ...]:
    """Return the names of so many attention layers."""
    return tuple(
        f"attention layer {number} of {count}" for number in range(1, count + 1)
    )


def episode(
    query: UInt8[np.ndarray, "height width channel"],
    support: UInt8[np.ndarray, "image height width channel"],
    labels: Sequence[str],
    weights: Float[np.ndarray, "lookup read"],
    *,
    title: str = "",
) -> Figure:
    """Plot an episode of few-shot learning, one block per lookup.

    The query image is at the left, and a row of support images for each class, with
    darker frames for greater weights.

    Args:
        query: The query image.
        support: The support images.
        labels: The class of each support image.
        weights: The weights of the support images in order, optionally followed by that
            of the query itself.
        title: The title; further lines are details.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    count = len(labels)
    classes = list(dict.fromkeys(labels))
    images = {(0, 0): ("query", query, count)}
    for index, label in enumerate(labels):
        place = classes.index(label), 1 + labels[:index].count(label)
        images[place] = shorten_middle(label, longest=10), support[index], index
    columns = 1 + max(column for _, column in images)
    width = columns * len(weights)
    is_even = all(map(is_nearly_uniform, weights[:, :count]))
    notes = "frames: white 0, dark 1", NO_IMAGE if is_even else ""
    size = SIDE * width, (SIDE + LABEL) * len(classes) + 1
    with plotting(title, *classes):
        figure, axes = grid_figure(title, len(classes), width, size, *notes)
        names = layer_names(len(weights))
        for lookup, (name, shares) in enumerate(zip(names, weights, strict=True)):
            axes[0, lookup * columns].set_title(name)
            for row, column in np.ndindex(len(classes), columns):
                place: Any = axes[row, lookup * columns + column]
                if (row, column) not in images:
                    place.remove()
                    continue
                label, pixels, index = images[row, column]
                weight = float(shares[index]) if index < len(shares) else 0.0
                if index < len(shares):
                    label += f" {weight:.2f}"
                show_image(place, pixels)
                place.set_xlabel(label, fontsize=7)
                for spine in place.spines.values():
                    spine.set(edgecolor=hex_color(weight), linewidth=3)
    return figure
