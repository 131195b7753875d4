"""A flow as a picture: boxes with names and shapes in one lane or two, and an arrow from each to whom it gives to.

What is given to a box that stands above, or to itself, reaches it in the next step: these arrows are dashed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from docs.making.flow import Box, Flow, Shape
from regard.pictures.canvas import INK, MUTED, PAPER, hex_color, plotting

WIDE, HIGH, STEP, TRACK, BETWEEN, HEAD, FOOT = 2.75, 0.44, 0.66, 0.13, 0.9, 0.5, 0.2
"""Of a box, from box to box, between two tracks, between the lanes, above and below all, in inches."""
LETTERS = 47
"""Of a line of shapes, as many as there is room for; of more, each is smaller."""
LEFT, RIGHT = 0, 1
LEAVES = 0.15
"""How far below its middle an arrow leaves a box, and above it reaches one, in steps."""


@dataclass(frozen=True)
class Place:
    """Where a box stands: its lane, and its middle in inches from the left and from the top."""

    lane: int
    row: int
    x: float
    y: float


@dataclass(frozen=True)
class Arrow:
    """From a box to another; `back` means that it is for the next step."""

    source: str
    target: str
    back: bool


def picture(
    flow: Flow, names: Mapping[int, str], *, title: str, lanes: tuple[str, str] = ("encoder", "decoder")
) -> Figure:
    """Return a figure of a flow.

    `names` says what a size is called; boxes whose name begins with the first of the `lanes`, or that are first read
    by such, stand at the left.
    """
    order, arrows = [*flow.boxes], joined(flow)
    left = at_the_left(flow, lanes[0])
    tracks = tracked(arrows, order, left)
    sides = [0.2 + TRACK * (1 + max((n for at, n in tracks.values() if at == side), default=-1)) for side in (0, 1)]
    places = placed(order, left, sides[LEFT])
    width = sides[LEFT] + WIDE * (1 + bool(left)) + BETWEEN * bool(left) + sides[RIGHT]
    height = HEAD + FOOT + STEP * (1 + max(place.row for place in places.values()))
    with plotting():
        figure = Figure(figsize=(width, height), facecolor=PAPER, dpi=100)
        FigureCanvasAgg(figure)
        for arrow in arrows:
            join(figure, arrow, places, tracks[arrow])
        for name, box in flow.boxes.items():
            stand(figure, box, places[name], names, lanes)
        figure.text(0.15 / width, 1 - 0.14 / height, title, size=11, color=INK, va="top")
        used = " ".join(written(shapes, names) for box in flow.boxes.values() for shapes in (box.given, box.gave))
        key = "   ".join(f"{name} {size}" for size, name in names.items() if name.isalpha() and name in used)
        figure.text(0.15 / width, 0.12 / height, key, size=7, color=MUTED, va="bottom")
    return figure


def joined(flow: Flow) -> list[Arrow]:
    """Return an arrow for each that gives to another."""
    order, boxes = [*flow.boxes], flow.boxes
    return [
        Arrow(source, target, order.index(source) >= order.index(target) or (not soon and len(boxes[source].gave) > 1))
        for target, box in boxes.items()
        for source, soon in sorted(box.sources.items())
    ]


def at_the_left(flow: Flow, lane: str) -> set[str]:
    """Boxes whose name begins so, and what comes from outside to one of them; none where these are all."""
    found = {name for name in flow.boxes if name.startswith(lane)}
    found |= {each for name in found for each in flow.boxes[name].sources if not flow.boxes[each].sources}
    return found if len(found) < len(flow.boxes) else set()


def placed(order: Sequence[str], left: set[str], margin: float) -> dict[str, Place]:
    """Boxes below each other in the order of their calls; those of the right lane begin where the left one's began."""
    counts, found = [0, 0], {}
    for name in order:
        lane = LEFT if name in left or not left else RIGHT
        x = margin + WIDE / 2 + lane * (WIDE + BETWEEN)
        found[name] = Place(lane, counts[lane], x, HEAD + STEP * counts[lane] + HIGH / 2)
        counts[lane] += 1
    return found


def tracked(arrows: Sequence[Arrow], order: Sequence[str], left: set[str]) -> dict[Arrow, tuple[int, int]]:
    """Return on which side of the boxes each arrow runs and how far out, so that none lies on another.

    The short ones are inside. An arrow to the next box or to the other lane has side -1.
    """
    rows = {name: sum((other in left) == (name in left) for other in order[:place]) for place, name in enumerate(order)}
    found: dict[Arrow, tuple[int, int]] = {}
    taken: dict[int, list[list[tuple[float, float]]]] = {LEFT: [], RIGHT: []}
    for arrow in sorted(arrows, key=lambda each: abs(rows[each.target] - rows[each.source])):
        first, last = sorted((rows[arrow.source] + LEAVES, rows[arrow.target] - LEAVES))
        same = (arrow.source in left) == (arrow.target in left)
        if not same or rows[arrow.target] - rows[arrow.source] == 1:
            found[arrow] = -1, 0
            continue
        side = LEFT if arrow.source in left else RIGHT
        free = (n for n, spans in enumerate(taken[side]) if all(last < a or b < first for a, b in spans))
        track = next(free, len(taken[side]))
        taken[side] += [[]] if track == len(taken[side]) else []
        taken[side][track].append((first, last))
        found[arrow] = side, track
    return found


def join(figure: Figure, arrow: Arrow, places: Mapping[str, Place], track: tuple[int, int]) -> None:
    """Draw the arrow: straight down, across between the lanes, or round the side."""
    source, target = places[arrow.source], places[arrow.target]
    side, number = track
    if side >= 0:
        out = -1 if side == LEFT else 1
        edge, way = source.x + out * WIDE / 2, source.x + out * (WIDE / 2 + 0.12 + TRACK * number)
        ends = source.y + LEAVES * STEP, target.y - LEAVES * STEP
        points = [(edge, ends[0]), (way, ends[0]), (way, ends[1]), (edge, ends[1])]
    elif source.lane == target.lane:
        points = [(source.x, source.y + HIGH / 2), (target.x, target.y - HIGH / 2)]
    else:
        out = 1 if source.lane == LEFT else -1
        ends = source.x + out * WIDE / 2, target.x - out * WIDE / 2
        way = sum(ends) / 2 - 0.03 * source.row + 0.03 * target.row
        points = [(ends[0], source.y), (way, source.y), (way, target.y), (ends[1], target.y)]
    draw(figure, points, back=arrow.back)


def draw(figure: Figure, points: Sequence[tuple[float, float]], *, back: bool) -> None:
    """Draw a line through points, in inches from the left and the top, that ends in a point."""
    height = figure.get_size_inches()[1]
    path = Path([(x, height - y) for x, y in points])
    style: dict[str, Any] = {"linestyle": (0, (3, 2))} if back else {}
    colour = MUTED if back else INK
    figure.add_artist(
        FancyArrowPatch(
            path=path,
            arrowstyle="-|>",
            mutation_scale=8,
            linewidth=0.9,
            color=colour,
            joinstyle="miter",
            transform=figure.dpi_scale_trans,
            **style,
        )
    )


def stand(figure: Figure, box: Box, place: Place, names: Mapping[int, str], lanes: tuple[str, str]) -> None:
    """Draw a box: its name and how often it is called; what it is given and what it gives."""
    height = figure.get_size_inches()[1]
    reads = any(part in box.name for part in ("attend", "attention", "summary"))
    colour = hex_color(0.12) if reads else "#f0f1f3" if not box.sources else PAPER
    corner = place.x - WIDE / 2, height - place.y - HIGH / 2
    figure.add_artist(
        FancyBboxPatch(
            corner,
            WIDE,
            HIGH,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=colour,
            edgecolor=MUTED,
            linewidth=0.8,
            transform=figure.dpi_scale_trans,
        )
    )
    calls = len(box.gave)
    name = box.name.removeprefix(f"{lanes[0]}.").removeprefix(f"{lanes[1]}.") + (f"  × {calls}" if calls > 1 else "")
    given, gave = (written(shapes, names) for shapes in (box.given, box.gave))
    shown = f"{given}  →  {gave}" if given else gave
    size = min(7.5, 7.5 * LETTERS / len(shown))
    styles: tuple[dict[str, Any], ...] = ({"size": 8.5, "weight": "bold"}, {"size": size})
    for text, shift, style in zip((name, shown), (0.1, -0.1), styles, strict=True):
        figure.text(
            place.x,
            height - place.y + shift,
            text,
            transform=figure.dpi_scale_trans,
            ha="center",
            va="center_baseline",
            color=INK,
            parse_math=False,
            **style,
        )


def written(calls: Sequence[Sequence[Shape]], names: Mapping[int, str]) -> str:
    """Shapes with their sizes' names; a size that changes from call to call as its first and last."""

    def size(values: Sequence[int]) -> str:
        ends = [names.get(each, str(each)) for each in (values[0], values[-1])]
        return ends[0] if ends[0] == ends[1] else f"{ends[0]}..{ends[1]}"

    alike = [call for call in calls if [len(shape) for shape in call] == [len(shape) for shape in calls[-1]]]
    parts = zip(*alike, strict=True)
    return " ".join("(" + ", ".join(size(values) for values in zip(*shapes, strict=True)) + ")" for shapes in parts)
