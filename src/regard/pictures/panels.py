"""Figures made of panels: positional encodings, a spectrogram, a tape, an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.maps.lookups import TapeUse
from regard.pictures.canvas import (
    BAR,
    COLORS,
    GRID,
    MARGIN,
    MUTED,
    PAPER,
    SMALL_TYPE,
    Canvas,
    color_map,
    hex_color,
    is_nearly_uniform,
    plotting,
    round_scale_end,
)
from regard.pictures.heatmap import Matrices
from regard.pictures.text import choose_fonts, shorten_middle

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
    with plotting():
        from matplotlib.figure import Figure

        size = (9.9, 2.8 * len(encodings))
        figure = Figure(
            size,
            facecolor=PAPER,
            dpi=100,
            layout="constrained",
        )
        rows = figure.subplots(len(encodings), 3, squeeze=False)
        for row, (name, encoding) in zip(rows, encodings.items(), strict=True):
            encoding_axes, curve_axes, product_axes = row
            maps = (
                (encoding_axes, encoding.T, f"{name}: encoding", "dimension"),
                (product_axes, encoding @ encoding.T, "dot products", "position"),
            )
            for axes, values, title, side in maps:
                end = float(np.abs(values).max(initial=0.0)) or 1.0
                colors = color_map(signed=True)
                image = axes.imshow(
                    values,
                    cmap=colors,
                    vmin=-end,
                    vmax=end,
                )
                figure.colorbar(
                    image,
                    ax=axes,
                    ticks=[-end, 0, end],
                    format="%.3g",
                )
                axes.set(title=title, ylabel=side)
            curve_axes.set_title("as curves")
            curve_axes.set_prop_cycle(color=COLORS)
            step = -(-encoding.shape[1] // CURVES)
            for dimension in range(0, encoding.shape[1], step):
                curve_axes.plot(encoding[:, dimension], label=f"dimension {dimension}")
            curve_axes.legend(
                loc="upper left",
                bbox_to_anchor=(1, 1),
                handlelength=1,
            )
            curve_axes.grid()
            for axes in row:
                axes.set_xlabel("position")
                axes.locator_params(integer=True, nbins=5)
    return figure


SOUND_HEIGHT, ROW, GAP = 1.3, 0.17, 0.1
"""The heights of the spectrogram and of a row of weights, and the gap between the two,
in inches."""
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
        tokens: The tokens.
        times: The seconds of a frame, and of a key.
        title: The title; further lines are details.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
        ValueError: The numbers of tokens and rows differ or are too large.
    """
    if not len(tokens) == len(weights) <= MAX_TOKENS:
        raise ValueError(
            f"{len(tokens)} tokens for {len(weights)} rows; expected one each, at most "
            f"{MAX_TOKENS}"
        )
    frame_seconds, key_seconds = times
    sound_end = len(shades) * frame_seconds
    weights_end = weights.shape[1] * key_seconds
    last = max(sound_end, weights_end)
    width = min(max(2.2 * last, 4.0), 24.0)
    height = ROW * max(len(tokens), 1)
    end = round_scale_end(weights)
    with plotting():
        canvas = Canvas()
        matrices = Matrices(
            canvas,
            ((), tokens),
            ROW,
            SMALL_TYPE,
        )
        edge = MARGIN + max(0.35, 0.2 + matrices.width)
        top = canvas.add_title(title, edge + width + 0.45)
        bottom = top + SOUND_HEIGHT + GAP

        panels = (
            ((edge, top, width, SOUND_HEIGHT), shades.T[::-1], 1.0, sound_end),
            ((edge, bottom, width, height), weights, end, weights_end),
        )
        for box, image, darkest, seconds in panels:
            axes = canvas.add_axes(box)
            rows = len(image)
            if image.size:
                axes.imshow(
                    image,
                    extent=(0.0, seconds, rows, 0.0),
                    cmap=color_map(),
                    vmin=0.0,
                    vmax=darkest,
                )
            axes.set(xlim=(0, last), ylim=(rows or 1, 0), yticks=[])
            if image is weights:
                axes.set_xlabel("seconds →")
            else:
                axes.set_xticks([])
        matrices.draw_rows(edge, bottom)
        upright = {"ha": "center", "rotation": 90}
        canvas.text(
            "frequency →",
            edge - 0.1,
            bottom - GAP,
            va="bottom",
            **upright,
        )
        if height >= 0.6:
            canvas.text(
                "← tokens",
                0.1,
                bottom,
                va="top",
                **upright,
            )
        bar_height = min(max(height, 0.6), 1.6)
        bar = (edge + width + 0.15, bottom, BAR, bar_height)
        canvas.add_color_bar(bar, end, weights)
        return canvas.finish(bottom + max(height + 0.3, bar_height))


TAPE_LEFT, TAPE_ABOVE, TAPE_BELOW = 0.55, 0.3, 0.4
"""The margins of a panel, in inches."""
Panel = tuple[str, str, Float[np.ndarray, "line column"]]
"""A panel: its name, the name of its rows, and its values."""


def tape(use: TapeUse, *, title: str = "") -> Figure:
    """Plot the inputs, outputs, writes and reads of a machine with a tape.

    Inputs are beside outputs; below them are the writes of each head beside its reads,
    from white at 0 to dark at 1, on the used rows of the tape. Outputs without a target
    are grey.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    columns: list[list[Panel]] = []
    for bits, values, name, heads in (
        ("inputs", use.inputs, "writes to the tape", use.writing),
        ("outputs", use.outputs, "reads from the tape", use.reading),
    ):
        column = [(bits, "bit", values.T)]
        for number, weights in enumerate(heads, 1):
            suffix = f" (head {number})" if len(heads) > 1 else ""
            column.append((name + suffix, "row", weights.T[: use.rows]))
        columns.append(column)
    with plotting():
        from matplotlib.ticker import MaxNLocator

        canvas = Canvas()
        steps = len(use.inputs)
        cell = min(0.2, 6.0 / max(steps, 1))
        width = cell * steps
        half = TAPE_LEFT + width + MARGIN
        edges = (TAPE_LEFT, half + TAPE_LEFT)
        y = canvas.add_title(title, 2 * (half - MARGIN))
        for pair in zip_longest(*columns):
            y += TAPE_ABOVE
            bottom = y
            for edge, panel in zip(edges, pair, strict=True):
                if panel is None:
                    continue
                panel_name, side, values = panel
                height = min(3.6, cell * len(values))  # many rows have low cells
                axes = canvas.add_axes((edge, y, width, height))
                colors = color_map().with_extremes(bad=GRID)
                axes.imshow(
                    values,
                    cmap=colors,
                    vmin=0.0,
                    vmax=1.0,
                )
                axes.set(title=panel_name, xlabel="step", ylabel=side)
                axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
                ticks = min(6, max(len(values), 1))
                axes.yaxis.set_major_locator(MaxNLocator(ticks, integer=True))
                bottom = max(bottom, y + height)
            y = bottom + TAPE_BELOW
        key = "white 0, dark 1"
        if np.isnan(use.outputs).any():
            key += ", grey: no target"
        canvas.text(key, MARGIN, y)
        return canvas.finish(y)


SIDE, LABEL, SPACE = 0.8, 0.2, 0.15
"""The side of an image, the height of the line below it, and the space between images,
in inches."""
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
    rows: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        rows.setdefault(label, []).append(index)
    step = SIDE + SPACE
    row_height = step + LABEL
    block = (1 + max(map(len, rows.values()))) * step + 5 * SPACE
    is_even = all(map(is_nearly_uniform, weights[:, : len(labels)]))
    with plotting():
        canvas = Canvas()
        width = len(weights) * block - 2 * MARGIN
        top = canvas.add_title(title, width, NO_IMAGE if is_even else "") + 0.25
        bottom = top + len(rows) * row_height
        canvas.text("frames: white 0, dark 1", MARGIN, bottom)
        names = layer_names(len(weights))
        for lookup, (name, shares) in enumerate(zip(names, weights, strict=True)):
            edge = MARGIN + lookup * block
            canvas.text(
                name,
                edge,
                top - 0.14,
                size=9,
            )
            caption, weight = "query", 0.0
            if len(shares) > len(labels):
                weight = float(shares[-1])
                caption = f"query, {weight:.2f}"
            _add_framed(
                canvas,
                (edge, top),
                query,
                caption,
                weight,
            )
            for row, (label, indices) in enumerate(rows.items()):
                y = top + row * row_height
                short_label = shorten_middle(label, longest=10)
                for column, index in enumerate(indices, 1):
                    x = edge + column * step + 2 * SPACE
                    weight = float(shares[index])
                    caption = f"{short_label} {weight:.2f}"
                    _add_framed(
                        canvas,
                        (x, y),
                        support[index],
                        caption,
                        weight,
                    )
        return canvas.finish(bottom)


def _add_framed(
    canvas: Canvas,
    place: tuple[float, float],
    pixels: UInt8[np.ndarray, "height width channel"],
    label: str,
    weight: float,
) -> None:
    """Add an image in a frame with the color of its weight."""
    axes = canvas.add_image((*place, SIDE, SIDE), pixels)
    (fonts,) = choose_fonts([label])
    axes.set_xlabel(
        label,
        fontsize=7,
        color=MUTED,
        family=fonts,
    )
    for spine in axes.spines.values():
        spine.set(edgecolor=hex_color(weight), linewidth=3)
