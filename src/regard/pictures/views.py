"""The views of head maps: a matrix, lines, every head, the text shaded, all layers rolled out, entropies."""

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
from regard.pictures.scale import round_up
from regard.pictures.write import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""Heads that are drawn as lines unless others are chosen; of more, those of the last layer."""
THRESHOLD = 0.15
"""The least weight that has a line by default."""
PARTS = "give page, words, source or target"
WHOLE = "write a .html page, without a map"
"""What to do about a picture that would be too large: where a part of it can be drawn, and where not."""
Numbers = Sequence[int] | None


@dataclass(frozen=True)
class Part:
    """Some places of head maps, as one picture draws them.

    most: the weight that is darkest.
    threshold: the least weight that has a line.
    first: where a text reads itself, the source place of the first target.
    """

    maps: HeadMaps
    title: str
    most: float
    threshold: float
    first: int | None


@dataclass(frozen=True)
class HeadView:
    """A view: which maps it draws of those that are chosen, None being all, and how it draws a part of them.

    own_scale: whether the greatest weight is darkest by default, not 1.
    breaks_lines: whether its text may be of any length, so that only targets are divided among pages.
    """

    select: Callable[[HeadMaps, Numbers], HeadMaps]
    draw: Callable[[Part], Figure]
    own_scale: bool = False
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
        """The source and target places of maps, at most `page` of each in a part. All parts have one scale. Raises
        InputError for a part of more than `LABELS` a side."""
        source, target = places
        pairs = [
            (across, down)
            for down in _pages(target, page)
            for across in ([source] if self.breaks_lines else _pages(source, page))
        ]
        default = round_up(maps.weights) if self.own_scale else 1.0
        found = []
        for across, down in pairs:
            check_size(across.stop - across.start, down.stop - down.start, PARTS)
            part = Part(
                maps.part(across, down),
                f"{title}  (source {across.start}:{across.stop}, target {down.start}:{down.stop})",
                default if scale is None else scale,
                THRESHOLD if threshold is None else threshold,
                down.start - across.start if maps.itself else None,
            )
            found.append(part if len(pairs) > 1 else replace(part, title=title))
        return found


def check_size(source: int, target: int, instead: str) -> None:
    """Raises InputError for more labels of a side than a picture has, with what to do instead."""
    if max(source, target) > LABELS:
        raise InputError(f"{source} places are read, by {target}; at most {LABELS} a side are drawn: {instead}")


def entropy(bits: Sequence[Float[np.ndarray, " head"]], read: int) -> Figure:
    """A figure with a row a layer and a cell a head: `regard.maps.entropy.entropies`, in bits, on a scale from 0, where
    one piece is read, to log2 of the `read` pieces, where all are read alike, which the title says; a dash where a head
    reads nothing. Raises InputError without matplotlib, ValueError for no layer."""
    most = math.log2(max(read, 2))
    rows = {f"layer {number}": each.tolist() for number, each in enumerate(bits)}
    return charts([Grid(f"entropy of each head, 0 to {most:.2f} bits", "head", rows, most)])


def entropy_of(maps: HeadMaps) -> Figure:
    """The entropy of every head of maps. Raises as `entropy`."""
    return entropy([entropies(each) for each in maps.by_layer()], len(maps.source.pieces))


def _pages(places: slice, size: int | None) -> list[slice]:
    size = size or max(1, places.stop - places.start)
    firsts = range(places.start, places.stop, size) or [places.start]
    return [slice(first, min(first + size, places.stop)) for first in firsts]


def _mean(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps.other({"": maps.mean(numbers).weights})


def _some(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps if numbers is None else maps.only(numbers)


def _few(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Lines of many heads cannot be told apart, so that by default only the last layer's are drawn."""
    count = len(maps.weights)
    return maps.only(range(count - maps.layers[-1], count)) if numbers is None and count > FEW else _some(maps, numbers)


def _rolled(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """All layers rolled out, and the last. Raises InputError unless these are layers of a text that reads itself."""
    if numbers is not None:
        raise InputError("a map is chosen, but a rollout is of all layers and heads; choose none")
    if not maps.itself or len(maps.layers) < 2:
        raise InputError(
            "the view rollout is of several layers that read themselves with residuals between, which this run has "
            "not; use the view heads, or of an encoder-decoder the role encoder"
        )
    layers = maps.by_layer()
    return maps.other(
        {"all layers, rolled out": rollout(layers), "the last layer, mean of its heads": average_heads(layers[-1])}
    )


def _matrix(part: Part) -> Figure:
    return heatmap(part.maps.mean(), title=part.title, most=part.most)


def _lines(part: Part) -> Figure:
    sides = part.maps.source.pieces, part.maps.target.pieces
    return lines(part.maps.weights, *sides, part.maps.names, threshold=part.threshold, title=part.title)


def _reading(part: Part) -> Figure:
    return reading(part.maps.mean(), title=part.title, most=part.most, first=part.first)


def _heads(part: Part) -> Figure:
    maps = part.maps
    sides = maps.source.pieces, maps.target.pieces
    return multiples(maps.weights, maps.names, maps.layers, sides, most=part.most, title=part.title)


VIEWS = {
    "matrix": HeadView(_mean, _matrix),
    "lines": HeadView(_few, _lines),
    "heads": HeadView(_some, _heads, own_scale=True),
    "reading": HeadView(_mean, _reading, breaks_lines=True),
    "rollout": HeadView(_rolled, _heads, own_scale=True),
}
"""The views that draw places of maps; `entropy_of` draws every head as a number."""
