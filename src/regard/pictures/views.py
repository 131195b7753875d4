"""The views of head maps: matrix, lines, heads, shaded text, rollout, entropies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.errors import InputError
from regard.maps.averages import average_heads
from regard.maps.entropy import entropies
from regard.maps.heads import HeadMaps
from regard.maps.rollout import rollout
from regard.pictures.chart import Grid, charts
from regard.pictures.heatmap import heatmap
from regard.pictures.lines import lines
from regard.pictures.multiples import multiples
from regard.pictures.reading import reading
from regard.pictures.scale import round_up, whole_or_greatest
from regard.pictures.write import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""The maximum of heads drawn as lines by default; if there are more, only the last layer's are drawn."""
THRESHOLD = 0.15
"""The default of the minimum weight with a line."""
PARTS = "give page, words, source or target"
WHOLE = "write a .html page, without a map"
"""The remedies for a picture that would be too large: for views with and without parts."""
Numbers = Sequence[int] | None


@dataclass(frozen=True)
class Part:
    """A part of head maps that one picture shows.

    most: the weight with the darkest colour.
    threshold: the minimum weight with a line.
    first: for self-attention, the source position of the first target.
    """

    maps: HeadMaps
    title: str
    most: float
    threshold: float
    first: int | None


@dataclass(frozen=True)
class HeadView:
    """A view: its choice of maps (None: all), and its drawing of a part of them.

    end: from weights to the end of their scale.
    averaged: whether it shows the mean of the heads.
    breaks_lines: whether its text may have any length, so that only targets are divided among pages.
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
        """The source and target positions of maps, at most `page` of each in a part, all on one scale. Raises
        InputError for a part with more than `LABELS` per side."""
        source, target = places
        pairs = [
            (across, down)
            for down in _pages(target, page)
            for across in ([source] if self.breaks_lines else _pages(source, page))
        ]
        default = self.end(maps.weights)
        found = []
        for across, down in pairs:
            check_size(across.stop - across.start, down.stop - down.start, PARTS)
            part = Part(
                maps.part(across, down),
                places_of(title, across, down),
                default if scale is None else scale,
                THRESHOLD if threshold is None else threshold,
                down.start - across.start if maps.is_self_attention else None,
            )
            whole = pairs == [
                (slice(0, len(maps.source.pieces)), slice(0, len(maps.target.pieces)))
            ]
            found.append(replace(part, title=title) if whole else part)
        return found


def places_of(title: str, source: slice, target: slice) -> str:
    """A title with the chosen places among its details."""
    places = f"source {source.start}:{source.stop}, target {target.start}:{target.stop}"
    return f"{title}, {places}" if "\n" in title else f"{title}\n{places}"


def check_size(source: int, target: int, instead: str) -> None:
    """Raises InputError for more labels on a side than a picture can have; `instead` is the remedy."""
    if max(source, target) > LABELS:
        raise InputError(
            f"the map has {target} x {source} positions; at most {LABELS} per side are drawn: {instead}"
        )


def entropy(bits: Sequence[Float[np.ndarray, " head"]], read: int) -> Figure:
    """A figure with a row per layer and a cell per head: `regard.maps.entropy.entropies` in bits. The scale goes from 0
    (one source) to log2 of the `read` sources (uniform), as the title notes. A head without weights has a dash. Raises
    InputError without matplotlib, ValueError for no layer."""
    most = math.log2(max(read, 2))
    rows = {f"layer {number}": each.tolist() for number, each in enumerate(bits)}
    return charts(
        [Grid(f"entropy of each head, 0 to {most:.2f} bits", "head", rows, most)]
    )


def entropy_of(maps: HeadMaps) -> Figure:
    """The entropy of every head of maps. Raises as `entropy`."""
    return entropy(
        [entropies(each) for each in maps.by_layer()], len(maps.source.pieces)
    )


def _pages(places: slice, size: int | None) -> list[slice]:
    size = size or max(1, places.stop - places.start)
    firsts = range(places.start, places.stop, size) or [places.start]
    return [slice(first, min(first + size, places.stop)) for first in firsts]


def _mean(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps.other({"": maps.mean(numbers).weights})


def _some(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps if numbers is None else maps.only(numbers)


def _few(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """The last layer of many heads, because lines of more heads cannot be distinguished."""
    count = len(maps.weights)
    return (
        maps.only(range(count - maps.layers[-1], count))
        if numbers is None and count > FEW
        else _some(maps, numbers)
    )


def _rolled(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """The rollout through all layers, and through the last. Raises InputError unless these are self-attention layers of
    one text."""
    if numbers is not None:
        raise InputError("a rollout combines all layers and heads; choose no map")
    if not maps.is_self_attention or len(maps.layers) < 2:
        raise InputError(
            "the view rollout needs several self-attention layers with residuals, which this run lacks; use the view "
            "heads, or for an encoder-decoder the role encoder"
        )
    layers = maps.by_layer()
    return maps.other(
        {
            "all layers, rolled out": rollout(layers),
            "the last layer, mean of its heads": average_heads(layers[-1]),
        }
    )


def _matrix(part: Part) -> Figure:
    return heatmap(part.maps.mean(), title=part.title, most=part.most)


def _lines(part: Part) -> Figure:
    sides = part.maps.source.pieces, part.maps.target.pieces
    return lines(
        part.maps.weights,
        *sides,
        part.maps.names,
        threshold=part.threshold,
        title=part.title,
    )


def _reading(part: Part) -> Figure:
    return reading(part.maps.mean(), title=part.title, most=part.most, first=part.first)


def _heads(part: Part) -> Figure:
    maps = part.maps
    sides = maps.source.pieces, maps.target.pieces
    return multiples(
        maps.weights, maps.names, maps.layers, sides, most=part.most, title=part.title
    )


VIEWS = {
    "matrix": HeadView(_mean, _matrix, whole_or_greatest, averaged=True),
    "lines": HeadView(_few, _lines, round_up),
    "heads": HeadView(_some, _heads, round_up),
    "reading": HeadView(
        _mean, _reading, whole_or_greatest, averaged=True, breaks_lines=True
    ),
    "rollout": HeadView(_rolled, _heads, round_up),
}
"""The views of positions; `entropy_of` draws every head as a number."""
