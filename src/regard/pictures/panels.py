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
    palette,
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
Frames = Float[np.ndarray, "frame band"]
"""A number for each frame and band of a sound."""


def positions(encodings: Mapping[str, Encoding]) -> Figure:
    """Plot positional encodings, one per row.

    A row has the values (dimension by position), some dimensions as curves, and the dot
    product of each pair of positions. Orange is negative, blue positive; each scale
    ends at the greatest magnitude.

    Raises:
        InputError: matplotlib is not installed.
    """
    with plotting(*encodings):
        size = 9.9, 2.8 * len(encodings)
        figure, rows = grid_figure("", len(encodings), 3, size)
        for row, (name, encoding) in zip(rows, encodings.items(), strict=True):
            encoding_axes, curve_axes, product_axes = row
            dimensions = encoding.T
            products = encoding @ dimensions
            maps = (
                (encoding_axes, dimensions, f"{name}: encoding", "dimension"),
                (product_axes, products, "dot products", "position"),
            )
            for axes, values, title, side in maps:
                greatest = np.abs(values).max(initial=0.0)
                end = float(greatest) or 1.0
                colors = color_map(signed=True)
                image = axes.imshow(values, cmap=colors, vmin=-end, vmax=end)
                figure.colorbar(image, ax=axes, ticks=[-end, 0, end], format="%.3g")
                axes.set(title=title, ylabel=side)
            curve_axes.set_title("as curves")
            curve_axes.set_prop_cycle(color=COLORS)
            count = len(dimensions)
            step = -(-count // CURVES)
            for index in range(0, count, step):
                curve_axes.plot(dimensions[index], label=f"dimension {index}")
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


DARKEST = 2.0
"""The darkest feature of a sound, in deviations above the mean; below it is white."""


def shade_features(features: Frames) -> Frames:
    """Return the features of a sound as shades from 0 to 1."""
    centered = features - features.mean()
    deviation = max(float(centered.std()), 1e-6)
    shades = 0.5 + centered / deviation / (2 * DARKEST)
    return np.clip(shades, 0, 1)


def paint_sound(
    shades: Frames, high: int, wide: int
) -> UInt8[np.ndarray, "row column color"]:
    """Return the pixels of a sound, low bands at the bottom.

    Args:
        shades: The sound from 0, white, to 1, dark.
        high: The pixels of a band.
        wide: The pixels of a frame.
    """
    colors = palette().astype(np.uint8)
    darkest = len(colors) - 1
    indices = (shades.T[::-1] * darkest).round().astype(int)
    pixels = colors[indices]
    return pixels.repeat(high, 0).repeat(wide, 1)


def spectrogram(
    shades: Frames,
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
    frame, key = times
    sound_end = len(shades) * frame
    reads_end = weights.shape[1] * key
    last = max(sound_end, reads_end)
    heights = SOUND_HEIGHT, ROW * max(count, 4)
    width = min(max(2.2 * last, 4.0), 24.0)
    size = width + 1.5, sum(heights) + 1.2
    with plotting(title, *tokens):
        figure, axes = grid_figure(
            title, 2, 1, size, sharex=True, height_ratios=heights
        )
        sound, reads = axes[:, 0]
        scale = {"cmap": color_map(), "vmin": 0.0}
        sound.imshow(shades.T[::-1], extent=(0, sound_end, 0, 1), vmax=1.0, **scale)
        sound.set(ylabel="frequency →", yticks=[])
        reads.set_yticks([])
        label_axes(reads, (), tokens, SMALL_TYPE)
        if weights.size:
            end = round_scale_end(weights)
            reads.imshow(weights, extent=(0, reads_end, count, 0), vmax=end, **scale)
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
    sides = (
        ("inputs", use.inputs, "writes to the tape", use.writing),
        ("outputs", use.outputs, "reads from the tape", use.reading),
    )
    columns = []
    for bits, values, name, heads in sides:
        column = [(bits, "bit", values.T)]
        for number, weights in enumerate(heads, 1):
            suffix = f" (head {number})" if len(heads) > 1 else ""
            column.append((name + suffix, "row", weights.T[: use.rows]))
        columns.append(column)
    rows = list(zip_longest(*columns))
    steps = len(use.inputs)
    cell = min(0.2, 6.0 / max(steps, 1))
    heights = []
    for row in rows:
        tallest = max(len(panel[2]) for panel in row if panel)
        height = max(0.2, cell * tallest)
        heights.append(min(3.6, height))  # many rows have low cells
    total = sum(heights) + 0.8 * len(rows) + 0.5
    size = 2 * cell * steps + 2, total
    key = "white 0, dark 1"
    if np.isnan(use.outputs).any():
        key += ", grey: no target"
    count = len(rows)
    with plotting(title):
        figure, axes = grid_figure(title, count, 2, size, key, height_ratios=heights)
        colors = color_map().with_extremes(bad=GRID)
        for place, panel in zip(axes.flat, chain(*rows), strict=True):
            if panel is None:
                place.remove()
                continue
            name, side, values = panel
            place.imshow(values, cmap=colors, vmin=0.0, vmax=1.0)
            place.set(title=name, xlabel="step", ylabel=side)
            place.locator_params(integer=True, nbins=6)
    return figure


SIDE, LABEL = 0.95, 0.2
"""The room for an image, and the height of the line below it, in inches."""
NO_IMAGE = "nearly even: no support image is preferred"


def layer_names(count: int) -> tuple[str, ...]:
    """Return the names of so many attention layers."""
    numbers = range(1, count + 1)
    return tuple(f"attention layer {number} of {count}" for number in numbers)


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
        row = classes.index(label)
        column = 1 + labels[:index].count(label)
        name = shorten_middle(label, longest=10)
        images[row, column] = name, support[index], index
    columns = 1 + max(column for _, column in images)
    lookups = len(weights)
    width = columns * lookups
    is_even = all(map(is_nearly_uniform, weights[:, :count]))
    notes = "frames: white 0, dark 1", NO_IMAGE if is_even else ""
    rows = len(classes)
    size = SIDE * width, (SIDE + LABEL) * rows + 1
    with plotting(title, *classes):
        figure, axes = grid_figure(title, rows, width, size, *notes)
        blocks = np.split(axes, lookups, axis=1)
        names = layer_names(lookups)
        for name, shares, block in zip(names, weights, blocks, strict=True):
            block[0, 0].set_title(name)
            for position in np.ndindex(rows, columns):
                place: Any = block[position]
                if position not in images:
                    place.remove()
                    continue
                label, pixels, index = images[position]
                weight = 0.0
                if index < len(shares):
                    weight = float(shares[index])
                    label += f" {weight:.2f}"
                show_image(place, pixels)
                place.set_xlabel(label, fontsize=7)
                for spine in place.spines.values():
                    spine.set(edgecolor=hex_color(weight), linewidth=3)
    return figure
