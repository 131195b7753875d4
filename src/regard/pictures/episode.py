"""A query image beside its support images, each with its weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

from regard.pictures import inches
from regard.pictures.fonts import families
from regard.pictures.labels import distinct
from regard.pictures.scale import nearly_even
from regard.pictures.style import MUTED, hex_colour, plotting
from regard.pictures.title import titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE, LABEL, GAP, HEADING, FOOT = 0.8, 0.2, 0.15, 0.27, 0.2
"""Inches of an image's side, the line below it, the gap between images, a block's heading and the legend."""


NO_IMAGE = "nearly even: no support image is preferred"


def layer_names(count: int) -> tuple[str, ...]:
    """The names of so many attention layers."""
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
    """A figure with one block per lookup: the query image at the left, and a row of support images for each class, with
    darker frames for greater weights. `weights` are those of the support images in order, optionally followed by that
    of the query itself. Raises InputError without matplotlib, or if no installed font has a character."""
    names = list(dict.fromkeys(labels))
    rows = [
        [place for place, label in enumerate(labels) if label == name] for name in names
    ]
    with plotting():
        block = (1 + max(map(len, rows))) * (SIDE + GAP) + 5 * GAP
        figure, width = inches.sheet(), len(weights) * block
        note = NO_IMAGE if all(map(nearly_even, weights[:, : len(labels)])) else ""
        heading = titled(figure, title, width - 2 * GAP, note)
        head = HEADING + (GAP + heading.height if heading.height else 0.0)
        height = head + len(rows) * (SIDE + LABEL + GAP) + FOOT
        figure.set_size_inches(width, height)
        inches.text(figure, "frames: white 0, dark 1", (GAP, FOOT), size=7, color=MUTED)

        def axes_at(lookup: int, row: int, column: int) -> Axes:
            left = (
                lookup * block
                + GAP
                + column * (SIDE + GAP)
                + (2 * GAP if column else 0.0)
            )
            bottom = height - head - row * (SIDE + LABEL + GAP) - SIDE
            return figure.add_axes(
                (left / width, bottom / height, SIDE / width, SIDE / height)
            )

        for lookup, own in enumerate(weights):
            place = lookup * block + GAP, height - head + HEADING / 2
            inches.text(
                figure, layer_names(len(weights))[lookup], place, size=9, color=MUTED
            )
            itself = own[len(labels)] if len(own) > len(labels) else None
            _draw(
                axes_at(lookup, 0, 0),
                query,
                "query" if itself is None else f"query, {itself:.2f}",
                itself or 0.0,
            )
            for row, (name, places) in enumerate(zip(names, rows, strict=True)):
                for column, place in enumerate(places, 1):
                    text = f"{distinct(name, longest=10)} {own[place]:.2f}"
                    _draw(
                        axes_at(lookup, row, column),
                        support[place],
                        text,
                        float(own[place]),
                    )
        heading.draw(figure, GAP, height - GAP)
    return figure


def _draw(
    axes: Axes,
    pixels: UInt8[np.ndarray, "height width channel"],
    text: str,
    weight: float,
) -> None:
    axes.imshow(
        np.repeat(pixels, 3, 2) if pixels.shape[2] == 1 else pixels,
        interpolation="nearest",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel(
        text,
        fontsize=7,
        color=MUTED,
        labelpad=2,
        family=families([text])[0],
        parse_math=False,
    )
    for spine in axes.spines.values():
        spine.set(edgecolor=hex_colour(weight), linewidth=3)
