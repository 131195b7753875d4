"""Figures made of panels: positional encodings, a spectrogram, a tape, an episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.maps.lookups import TapeUse
from regard.pictures.style import (
    COLORS,
    GRID,
    INK,
    MUTED,
    add_color_bar,
    choose_sizes,
    color_map,
    diverging,
    hex_color,
    is_nearly_uniform,
    palette,
    plotting,
    round_scale_end,
    to_fractions,
)
from regard.pictures.text import (
    Word,
    choose_fonts,
    draw_text,
    layout_title,
    measure,
    new_figure,
    shorten_middle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POSITIONS_SIDE, POSITIONS_LEFT, POSITIONS_ABOVE, POSITIONS_BELOW, POSITIONS_RIGHT = (
    2.0,
    0.55,
    0.35,
    0.45,
    0.75,
)
"""A panel's side and the margins, in inches; the right one has the colour bar."""
CURVES = 4
"""The maximum of dimensions drawn as curves."""

Encoding = Float[np.ndarray, "_position _dimension"]


def positions(encodings: Mapping[str, Encoding]) -> Figure:
    """Plot positional encodings, one per row.

    A row has the values (dimension by position), some dimensions as curves, and the dot
    product of each pair of positions. Orange is negative, blue positive; each scale
    ends
    at the greatest magnitude.

    Raises:
        InputError: matplotlib is not installed.
        ValueError: There is no encoding.
    """
    if not encodings:
        raise ValueError("positions() got no encoding; expected at least one")
    width, tall = (
        3 * (POSITIONS_LEFT + POSITIONS_SIDE + POSITIONS_RIGHT),
        POSITIONS_ABOVE + POSITIONS_SIDE + POSITIONS_BELOW,
    )
    with plotting():
        figure = new_figure()
        size_inches = width, tall * len(encodings)
        figure.set_size_inches(size_inches)
        for row, (name, encoding) in enumerate(encodings.items()):
            bottom = size_inches[1] - tall * (row + 1) + POSITIONS_BELOW
            panels = [
                figure.add_axes(
                    to_fractions(
                        (
                            POSITIONS_LEFT + column * width / 3,
                            bottom,
                            POSITIONS_SIDE,
                            POSITIONS_SIDE,
                        ),
                        size_inches,
                    )
                )
                for column in range(3)
            ]
            alike = encoding @ encoding.T
            _draw_map(figure, panels[0], encoding.T, f"{name}: encoding", "dimension")
            _draw_curves(panels[1], encoding)
            _draw_map(figure, panels[2], alike, "dot products", "position")
    return figure


def _draw_map(
    figure: Figure,
    axes: Axes,
    values: Float[np.ndarray, "row column"],
    title: str,
    side: str,
) -> None:
    from matplotlib.colors import ListedColormap

    rows, columns = values.shape
    limit = float(np.abs(values).max(initial=0.0)) or 1.0
    axes.imshow(
        values,
        cmap=ListedColormap(diverging() / 255),
        vmin=-limit,
        vmax=limit,
        aspect="auto",
        interpolation="none",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    _label_panel(axes, title, side)
    box, (width, _) = axes.get_position(), figure.get_size_inches()
    add_color_bar(
        figure,
        (box.x1 + 0.08 / width, box.y0, 0.1 / width, box.height),
        vmax=limit,
        vmin=-limit,
    )


def _draw_curves(axes: Axes, encoding: Encoding) -> None:
    """Draw evenly spaced dimensions, beginning with the first."""
    count = min(CURVES, encoding.shape[1])
    for number, dimension in enumerate(
        range(0, encoding.shape[1], -(-encoding.shape[1] // count))
    ):
        axes.plot(
            encoding[:, dimension],
            color=COLORS[number],
            linewidth=1.4,
            label=f"dimension {dimension}",
        )
    axes.legend(
        fontsize=6.5,
        frameon=False,
        labelcolor=INK,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        handlelength=1,
    )
    axes.grid(color=GRID, linewidth=0.6)
    _label_panel(axes, "as curves", "")


def _label_panel(axes: Axes, title: str, side: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, loc="left", pad=4, parse_math=False)
    axes.set_xlabel("position", fontsize=8, color=MUTED, labelpad=2)
    axes.set_ylabel(side, fontsize=8, color=MUTED, labelpad=2)
    axes.locator_params(integer=True, nbins=5)
    axes.tick_params(labelsize=7, labelcolor=MUTED, color=MUTED, length=2)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID)


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SECOND, NARROWEST, SOUND_WIDEST = 2.2, 4.0, 24.0
"""Inches of a second, and of the least and the greatest width."""
HIGH, ROW, NAME, SOUND_LEFT, SOUND_RIGHT, SOUND_FOOT, TOP, SOUND_GAP = (
    1.3,
    0.17,
    0.2,
    0.5,
    0.75,
    0.42,
    0.1,
    0.1,
)
"""Inches of the spectrogram, of a row of weights, of the name of an axis, of the
margins (the left one grows with the labels), and between the two."""
MIN_NAMED_HEIGHT = 0.6
"""Inches of the rows of weights from which on their axis has a name."""
BAR = 0.6, 1.6
"""Inches of the shortest and of the longest colour bar."""
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
            f"{len(tokens)} tokens for {len(weights)} rows; expected one each, at most {MAX_TOKENS}"
        )
    seconds = max(len(shades) * times[0], weights.shape[1] * times[1])
    across, down = (
        min(max(SECOND * seconds, NARROWEST), SOUND_WIDEST),
        max(ROW * len(tokens), ROW),
    )
    with plotting():
        figure = new_figure()
        words = measure(figure, tokens, choose_sizes(1).small)
        start = max(
            SOUND_LEFT, NAME + 0.12 + max((word.width for word in words), default=0.0)
        )
        heading = layout_title(figure, title, across + SOUND_RIGHT)
        size_inches = (
            start + across + SOUND_RIGHT,
            TOP + heading.height + HIGH + SOUND_GAP + down + SOUND_FOOT,
        )
        figure.set_size_inches(size_inches)
        heading.draw(figure, start, size_inches[1] - TOP)
        boxes = (
            (start, SOUND_FOOT + down + SOUND_GAP, across, HIGH),
            (start, SOUND_FOOT, across, down),
        )
        above, below = (
            figure.add_axes(to_fractions(box, size_inches)) for box in boxes
        )
        _draw_image(above, shades.T[::-1], len(shades) * times[0], seconds)
        _draw_image(
            below,
            weights,
            weights.shape[1] * times[1],
            seconds,
            round_scale_end(weights),
        )
        above.set(xticks=[], yticks=[])
        _label_rows(below, words)
        _draw_axis_name(
            figure, "frequency →", (start - 0.1, SOUND_FOOT + down + SOUND_GAP)
        )
        if down >= MIN_NAMED_HEIGHT:
            _draw_axis_name(figure, "← tokens", (NAME / 2, SOUND_FOOT))
        bar = min(max(down, BAR[0]), BAR[1])
        beside = start + across + 0.15, SOUND_FOOT + max(down - bar, 0.0), 0.12, bar
        add_color_bar(
            figure, to_fractions(beside, size_inches), vmax=round_scale_end(weights)
        )
    return figure


def _draw_axis_name(figure: Figure, name: str, place: tuple[float, float]) -> None:
    """Draw the name of a vertical axis, upwards from `place`."""
    turned = {
        "rotation": 90,
        "ha": "center",
        "va": "bottom",
        "transform": figure.dpi_scale_trans,
    }
    figure.text(*place, name, size=choose_sizes(1).small, color=MUTED, **turned)


def _draw_image(
    axes: Axes, shades: np.ndarray, right: float, seconds: float, vmax: float = 1.0
) -> None:
    """Draw an image from 0 to `right` of so many seconds, dark at `vmax`.

    Its first row is at the top.
    """
    if shades.size:
        settings = {
            "cmap": color_map(),
            "vmin": 0.0,
            "vmax": vmax,
            "aspect": "auto",
            "interpolation": "nearest",
        }
        axes.imshow(shades, extent=(0.0, right, float(len(shades)), 0.0), **settings)
    axes.set_xlim(0, seconds)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID, linewidth=choose_sizes(1).line)


def _label_rows(axes: Axes, words: Sequence[Word]) -> None:
    size = choose_sizes(1)
    axes.set_ylim(max(len(words), 1), 0)
    axes.set_yticks(
        [place + 0.5 for place in range(len(words))],
        [word.label for word in words],
        parse_math=False,
    )
    axes.tick_params(axis="y", length=0, pad=4, labelsize=size.small, labelcolor=INK)
    for tick, word in zip(axes.get_yticklabels(), words, strict=True):
        tick.set_fontfamily(word.fonts)
    axes.tick_params(
        axis="x",
        length=2,
        width=0.6,
        color=MUTED,
        labelsize=size.small,
        labelcolor=MUTED,
    )
    axes.set_xlabel("seconds →", fontsize=size.small, color=MUTED)


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAPE_LEFT, TAPE_RIGHT, TAPE_ABOVE, TAPE_BELOW = 0.55, 0.15, 0.3, 0.4
"""Margins of a panel, in inches."""
TAPE_FOOT = 0.2
"""The height of the legend below all panels, in inches."""
TAPE_WIDEST, TALLEST, LARGEST_CELL = 6.0, 3.6, 0.2
"""The maximum width and height of a panel and the maximum side of a cell, in inches."""

Panel = tuple[str, str, Float[np.ndarray, "line column"]]
"""A panel: its name, the meaning of its rows, and its values."""


def tape(use: TapeUse, *, title: str = "") -> Figure:
    """Plot the inputs, outputs, writes and reads of a machine with a tape.

    Inputs are beside outputs; below them are the writes of each head beside its reads,
    from white at 0 to dark at 1, on the used rows of the tape. Outputs without a target
    are grey.

    Raises:
        InputError: matplotlib is not installed, or no installed font has a character.
    """
    wrote = tape_panels("writes to the tape", use.writing, use.rows)
    read = tape_panels("reads from the tape", use.reading, use.rows)
    pairs = list(
        zip_longest(
            [("inputs", "bit", use.inputs.T), *wrote],
            [("outputs", "bit", use.outputs.T), *read],
        )
    )
    with plotting():
        figure, steps = new_figure(), len(use.inputs)
        cell = min(LARGEST_CELL, TAPE_WIDEST / max(steps, 1))
        tall = [
            TAPE_ABOVE
            + TAPE_BELOW
            + max(_height(panel, cell) for panel in pair if panel is not None)
            for pair in pairs
        ]
        width = 2 * (TAPE_LEFT + cell * steps + TAPE_RIGHT)
        heading = layout_title(figure, title, width - 2 * TAPE_RIGHT)
        head = heading.height + (TAPE_RIGHT if title else 0.0)
        height = head + sum(tall) + TAPE_FOOT
        figure.set_size_inches(width, height)
        heading.draw(figure, TAPE_RIGHT, height - TAPE_RIGHT)
        key = "white 0, dark 1" + (
            ", grey: no target" if np.isnan(use.outputs).any() else ""
        )
        draw_text(figure, key, (TAPE_RIGHT, TAPE_FOOT / 2), size=7, color=MUTED)
        top = height - head
        for pair, size in zip(pairs, tall, strict=True):
            for x, panel in zip((TAPE_LEFT, width / 2 + TAPE_LEFT), pair, strict=True):
                if panel is not None:
                    side = _height(panel, cell)
                    place = (
                        x / width,
                        (top - TAPE_ABOVE - side) / height,
                        cell * steps / width,
                        side / height,
                    )
                    _draw_tape_panel(figure.add_axes(place), panel)
            top -= size
    return figure


def _height(panel: Panel, cell: float) -> float:
    """Return the height of a panel in inches; many rows have low cells."""
    return min(TALLEST, cell * len(panel[2]))


def tape_panels(
    name: str, weights: Float[np.ndarray, "head step row"], rows: int
) -> list[Panel]:
    """One panel per head."""
    several = len(weights) > 1
    return [
        (
            f"{name} (head {number})" if several else name,
            "row",
            weights_of_head.T[:rows],
        )
        for number, weights_of_head in enumerate(weights, 1)
    ]


def _draw_tape_panel(axes: Axes, panel: Panel) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    name, side, values = panel
    rows, steps = values.shape
    axes.imshow(
        values,
        cmap=ListedColormap(palette() / 255).with_extremes(bad=GRID),
        vmin=0.0,
        vmax=1.0,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, steps - 0.5, rows - 0.5, -0.5),
    )
    axes.set_title(name, fontsize=9, color=INK, loc="left", pad=3)
    axes.set_ylabel(side, fontsize=8, color=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(min(6, max(rows, 1)), integer=True))
    axes.tick_params(labelsize=7, labelcolor=MUTED, color=MUTED, length=2)
    axes.set_xlabel("step", fontsize=8, color=MUTED, labelpad=2)
    for spine in axes.spines.values():
        spine.set(edgecolor=GRID)


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, LABEL, GAP, HEADING, FOOT = 0.8, 0.2, 0.15, 0.27, 0.2
"""Inches of an image's side, the line below it, the gap between images, a block's
heading and the legend."""


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
    names = list(dict.fromkeys(labels))
    rows = [
        [place for place, label in enumerate(labels) if label == name] for name in names
    ]
    with plotting():
        block = (1 + max(map(len, rows))) * (SIDE + GAP) + 5 * GAP
        figure, width = new_figure(), len(weights) * block
        note = (
            NO_IMAGE if all(map(is_nearly_uniform, weights[:, : len(labels)])) else ""
        )
        heading = layout_title(figure, title, width - 2 * GAP, note)
        head = HEADING + (GAP + heading.height if heading.height else 0.0)
        height = head + len(rows) * (SIDE + LABEL + GAP) + FOOT
        figure.set_size_inches(width, height)
        draw_text(figure, "frames: white 0, dark 1", (GAP, FOOT), size=7, color=MUTED)

        def axes_at(lookup: int, row: int, column: int) -> Axes:
            x = (
                lookup * block
                + GAP
                + column * (SIDE + GAP)
                + (2 * GAP if column else 0.0)
            )
            bottom = height - head - row * (SIDE + LABEL + GAP) - SIDE
            return figure.add_axes(
                (x / width, bottom / height, SIDE / width, SIDE / height)
            )

        for lookup, weights_of_lookup in enumerate(weights):
            place = lookup * block + GAP, height - head + HEADING / 2
            draw_text(
                figure, layer_names(len(weights))[lookup], place, size=9, color=MUTED
            )
            itself = (
                weights_of_lookup[len(labels)]
                if len(weights_of_lookup) > len(labels)
                else None
            )
            _draw_frame(
                axes_at(lookup, 0, 0),
                query,
                "query" if itself is None else f"query, {itself:.2f}",
                itself or 0.0,
            )
            for row, (name, places) in enumerate(zip(names, rows, strict=True)):
                for column, place in enumerate(places, 1):
                    label = f"{shorten_middle(name, longest=10)} {weights_of_lookup[place]:.2f}"
                    _draw_frame(
                        axes_at(lookup, row, column),
                        support[place],
                        label,
                        float(weights_of_lookup[place]),
                    )
        heading.draw(figure, GAP, height - GAP)
    return figure


def _draw_frame(
    axes: Axes,
    pixels: UInt8[np.ndarray, "height width channel"],
    label: str,
    weight: float,
) -> None:
    axes.imshow(
        np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels,
        interpolation="nearest",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(
        label,
        fontsize=7,
        color=MUTED,
        labelpad=2,
        family=choose_fonts([label])[0],
        parse_math=False,
    )
    for spine in axes.spines.values():
        spine.set(edgecolor=hex_color(weight), linewidth=3)
