"""Pictures of what every head of a run reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.figure import PARTS, Asking, check_role, too_large
from regard.cli.figure import draw as draw_own
from regard.cli.figure_options import View, Viewing
from regard.cli.options import Comparing
from regard.errors import InputError
from regard.maps.averages import average_heads
from regard.maps.entropy import entropies
from regard.maps.heads import HeadMaps
from regard.maps.rollout import rollout
from regard.pictures.heatmap import heatmap
from regard.pictures.lines import lines
from regard.pictures.multiples import multiples
from regard.pictures.reading import reading
from regard.pictures.scale import round_up
from regard.pictures.views import entropy
from regard.pictures.write import LABELS, write, write_figure
from regard.tasks.language_model.run import LanguageModelRun
from regard.tasks.masked_language_model.run import MaskedLanguageModelRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""Heads that are drawn as lines where none are chosen; of more, those of the last layer."""
THRESHOLD = 0.15
"""The least weight that has a line where none is given."""
Numbers = Sequence[int] | None


@dataclass(frozen=True)
class Part:
    """Some places of maps. most: the weight that is darkest. first: of a text that reads itself, where in it the first
    that reads stands."""

    maps: HeadMaps
    title: str
    most: float
    threshold: float
    first: int | None


def check(asking: Asking, viewing: Viewing, comparing: Comparing) -> None:
    """Refuses what no picture can be, before a model is loaded. Raises InputError."""
    if asking.page and not viewing.asked and asking.looking.maps is None:
        return
    count, instead = len(asking.kinds), "write a .html file, without --map, --view and what goes with it"
    if count > 1:
        raise InputError(
            f"--kind is given {count} times; several kinds are seen on a page of everything: {instead}, or give one"
        )
    if comparing.asked:
        raise InputError(f"two answers are compared on a page of everything: {instead}")


def draw(run: Any, asking: Asking, viewing: Viewing) -> tuple[str, list[Path]]:
    """Writes what is asked for, or else the run's own picture; returns the answer and where the pictures are. Raises
    InputError for a run that has nothing to show, and for what does not go together."""
    check_role(run, asking)
    if not viewing.asked:
        return draw_own(run, asking), [asking.out]
    return view(run, asking, viewing)


def view(run: Any, asking: Asking, viewing: Viewing) -> tuple[str, list[Path]]:
    """Writes the picture of a text, or its pages; returns as `draw`. Raises InputError as that does."""
    name: View = viewing.view or "matrix"
    if asking.page and (name != "matrix" or viewing.given & {"scale", "width"}):
        raise InputError(f"{asking.out}: a .html page shows a matrix of 0 to 1; write .png or .svg for other views")
    answer, heads = _read(run, asking)
    if name == "entropy":
        return answer, [_entropy(heads, asking, viewing)]
    maps = MAPS[name](heads, asking.looking.maps)
    parts = _parts(maps.between_words() if viewing.words else maps, viewing, asking.titled(asking.text))
    paths = [asking.out.with_stem(f"{asking.out.stem}-{number}") for number in range(1, len(parts) + 1)]
    paths = paths if len(paths) > 1 else [asking.out]
    for part, path in zip(parts, paths, strict=True):
        if asking.page:
            write(part.maps.mean(), path, title=part.title)
        else:
            write_figure(DRAW[name](part), path, title=part.title, width=viewing.width)
    return answer, paths


def _read(run: Any, asking: Asking) -> tuple[str, HeadMaps]:
    """The answer of a run, and what its heads read. Raises InputError for a run that has none to show."""
    match run:
        case LanguageModelRun() | MaskedLanguageModelRun():
            asking.looking.refuse("--beam", what="tells tokens one by one")
            found = run.look(asking.text, kind=asking.kind)
        case _:
            raise InputError(
                f"{asking.run}: this run has its own picture alone; leave out --view and what goes with it"
            )
    return found.answer, HeadMaps.of(found.lookups)


def _mean(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    return maps.other({"": maps.mean(numbers).weights})


def _some(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Those that are chosen, or all."""
    return maps if numbers is None else maps.only(numbers)


def _few(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """Those that are chosen, or all, or where that is many those of the last layer."""
    if numbers is None and len(maps.weights) > FEW:
        count = len(maps.weights)
        return maps.only(range(count - maps.layers[-1], count))
    return _some(maps, numbers)


def _rolled(maps: HeadMaps, numbers: Numbers) -> HeadMaps:
    """All layers rolled out, and the last. Raises InputError for what is not layers of a text that reads itself."""
    if numbers is not None:
        raise InputError("--map is given; a rollout is of all layers and heads")
    if not maps.itself or len(maps.layers) < 2:
        raise InputError(
            "--view rollout is of several layers that read themselves with residuals between, which this run has not; "
            "use --view heads, or of an encoder-decoder --role encoder"
        )
    layers = maps.by_layer()
    return maps.other(
        {"all layers, rolled out": rollout(layers), "the last layer, mean of its heads": average_heads(layers[-1])}
    )


MAPS: dict[View, Callable[[HeadMaps, Numbers], HeadMaps]] = {
    "matrix": _mean,
    "lines": _few,
    "heads": _some,
    "reading": _mean,
    "rollout": _rolled,
}
"""Which maps a view is of."""


def _parts(maps: HeadMaps, viewing: Viewing, title: str) -> list[Part]:
    """The places that are asked for, a page at a time. Raises InputError for none, or for more than a picture has."""
    source = viewing.part("source", len(maps.source.pieces))
    target = viewing.part("target", len(maps.target.pieces))
    by_rows = viewing.view == "reading"  # its lines are broken, so that its text may be of any length
    pages = [
        (across, down)
        for down in _pages(target, viewing.page)
        for across in ([source] if by_rows else _pages(source, viewing.page))
    ]
    found = [_part(maps, each, viewing, title) for each in pages]
    return found if len(found) > 1 else [replace(each, title=title) for each in found]


def _pages(places: slice, size: int | None) -> list[slice]:
    size = size or max(1, places.stop - places.start)
    firsts = range(places.start, places.stop, size) or [places.start]
    return [slice(first, min(first + size, places.stop)) for first in firsts]


def _part(maps: HeadMaps, places: tuple[slice, slice], viewing: Viewing, title: str) -> Part:
    source, target = places
    counts = source.stop - source.start, target.stop - target.start
    if max(counts) > LABELS:
        raise InputError(too_large(*counts, PARTS))
    own = round_up(maps.weights) if viewing.view in ("heads", "rollout") else 1.0
    return Part(
        maps.part(source, target),
        f"{title}  (source {source.start}:{source.stop}, target {target.start}:{target.stop})",
        own if viewing.scale is None else viewing.scale,
        THRESHOLD if viewing.threshold is None else viewing.threshold,
        target.start - source.start if maps.itself else None,
    )


def _entropy(maps: HeadMaps, asking: Asking, viewing: Viewing) -> Path:
    asking.looking.refuse("--map", what="is asked for the entropy of every head")
    figure = entropy([entropies(each) for each in maps.by_layer()], len(maps.source.pieces))
    return write_figure(figure, asking.out, title=asking.text, width=viewing.width)


def _matrix(part: Part) -> "Figure":
    return heatmap(part.maps.mean(), title=part.title, most=part.most)


def _lines(part: Part) -> "Figure":
    sides = part.maps.source.pieces, part.maps.target.pieces
    return lines(part.maps.weights, *sides, part.maps.names, threshold=part.threshold, title=part.title)


def _reading(part: Part) -> "Figure":
    return reading(part.maps.mean(), title=part.title, most=part.most, first=part.first)


def _heads(part: Part) -> "Figure":
    maps = part.maps
    sides = maps.source.pieces, maps.target.pieces
    return multiples(maps.weights, maps.names, maps.layers, sides, most=part.most, title=part.title)


DRAW: dict[View, Callable[[Part], "Figure"]] = {
    "matrix": _matrix,
    "lines": _lines,
    "heads": _heads,
    "reading": _reading,
    "rollout": _heads,
}
