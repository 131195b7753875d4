"""The attribution of a prediction: every layer and head, figures, and an interactive page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError, quoted
from regard.maps.alignment import Alignment
from regard.maps.document import DocumentWeights
from regard.maps.entropy import entropies
from regard.maps.greatest import GreatestWeights
from regard.maps.heads import HeadMaps
from regard.maps.lookups import Lookups, of_text
from regard.maps.strongest import is_long, strongest
from regard.maps.text import TextWeights
from regard.pictures.document import picture as document_figure
from regard.pictures.heatmap import SIDES, heatmap
from regard.pictures.labels import visible
from regard.pictures.scale import round_up, whole_or_greatest
from regard.pictures.shaded import shaded
from regard.pictures.view import View
from regard.pictures.views import (
    PARTS,
    VIEWS,
    WHOLE,
    Part,
    check_size,
    entropy,
    entropy_of,
)
from regard.pictures.write import PAGE, write, write_document, write_figure, write_view
from regard.tasks.options import AttributionOptions, FigureOptions, ViewName, options_of
from regard.tasks.prediction import LONGEST, Prediction, SearchedPrediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = "(empty)"
"""The title of a picture whose text is empty."""
NO_OUTPUT = "\nthe output is empty"
"""The line below the title of such an output."""
UNFINISHED = "\nthe output reached the length limit unfinished"
"""The line below the title of such an output."""
BEGINNING = 150
"""The most characters of a title that is a text, whose picture or page has its tokens."""


def beginning(text: str) -> str:
    """A text as a title: of a long one the first words, or where it has no blanks the first characters."""
    if len(text) <= BEGINNING:
        return text
    cut = text[:BEGINNING]
    return f"{cut.rpartition(' ')[0] or cut} …"


@dataclass(frozen=True)
class OwnView:
    """A view that a run draws itself, and the options that it supports."""

    draw: "Callable[[FigureOptions], Figure]"
    options: frozenset[str] = frozenset({"width"})


@dataclass(frozen=True, eq=False)
class Attribution:
    """A prediction and its attribution. A notebook displays it as its page.

    prediction: the run's prediction.
    title: the heading of its figures, before the chosen role and kind.
    lookups: every layer and head, for a page to explore; several where the model has several roles or tapes.
    weights: the one map of the chosen layers and heads: an `Alignment`, `DocumentWeights`, `TextWeights`, or what
        `draw` draws.
    options: the options of `attribute`.
    has_heads: whether the maps of the first lookups have views (`pictures.views`).
    draw: the run's own figure under a title; None where it is the matrix or the document of `weights`.
    views: the run's own views, which then are the only ones.
    detail: what is drawn where no kind is chosen, a line below the title.
    entropies: the entropy of each head in bits, a layer at a time, where the maps are means over queries.
    sides: what the columns and the rows of a matrix are.
    """

    prediction: Prediction
    title: str
    lookups: tuple[Lookups, ...]
    weights: Any
    options: AttributionOptions = field(default_factory=AttributionOptions)
    has_heads: bool = False
    draw: "Callable[[str], Figure] | None" = None
    views: Mapping[ViewName, OwnView] = field(default_factory=dict)
    detail: str = ""
    entropies: Callable[[], Sequence[np.ndarray]] | None = None
    sides: tuple[str, str] = SIDES

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(each.name for each in self.lookups))
        return f"<Attribution of {quoted(self.prediction.text, LONGEST)}: {names or 'weights'}>"

    @property
    def heading(self) -> str:
        """The title of its pictures, and on a line of its own what they show."""
        return self._titled(self.detail)

    @property
    def mean_of_heads(self) -> str:
        """What a matrix shows, with the number of heads that it averages."""
        if not self.has_heads:
            return "attention weights"
        layers, heads = np.shape(self.lookups[0].weights)[:2]
        chosen = layers * heads if self.options.maps is None else len(self.options.maps)
        where = (
            f" in {layers} layers" if self.options.maps is None and layers > 1 else ""
        )
        return (
            "attention weights"
            if chosen == 1
            else f"attention weights, the mean of {chosen} heads{where}"
        )

    @property
    def _matrix_heading(self) -> str:
        """The title of the matrix; a page has every head."""
        return self._titled(self.detail or self.mean_of_heads)

    def figure(
        self, options: FigureOptions | None = None, /, **settings: Any
    ) -> "Figure":
        """The run's own figure, or a view of its heads. `settings` are fields of `FigureOptions`.

        Raises:
            TypeError: options and settings are both given, or an unknown setting.
            InputError: an option that the view does not support or that makes several figures, a run without such a
                view, a picture that would be too large, or matplotlib is missing.
        """
        chosen = options_of(FigureOptions, options, settings)
        figures = self._figures(chosen)
        if len(figures) != 1:
            raise InputError(
                f"page is {chosen.page}, which makes {len(figures)} pictures; write them to files"
            )
        return figures[0][1]

    def page(self, options: FigureOptions | None = None, /, **settings: Any) -> str:
        """A self-contained .html page of all lookups; `settings` are `largest` and `breakdown_limit` (`FigureOptions`).

        Raises InputError if the page would be too large."""
        return self._page(options_of(FigureOptions, options, settings)).page()

    def greatest(self, count: int | None = None) -> GreatestWeights:
        """The `count` greatest weights of each query in every layer and head of the first lookups, or all. Raises
        InputError for a count below 1."""
        return GreatestWeights.of(self.lookups[0], count)

    def bits(self) -> Sequence[np.ndarray]:
        """The mean entropy of each head of the first lookups over all queries, in bits, a layer at a time."""
        return (
            [*entropies(np.abs(self.lookups[0].weights))]
            if self.entropies is None
            else self.entropies()
        )

    def write(
        self, path: Path | str, options: FigureOptions | None = None, /, **settings: Any
    ) -> list[Path]:
        """Write a figure, .png, .svg or .pdf, or a .html page of all lookups, and return the paths. With the option
        `page` several figures are written as NAME-1, NAME-2 and so on. A .html page of one map has the options of a
        matrix.

        Raises:
            TypeError and InputError: as `figure`, and for a name with another suffix.
            RunError: a file cannot be written.
        """
        path, chosen = Path(path), options_of(FigureOptions, options, settings)
        html = path.suffix.lower() == PAGE
        if html and chosen.own and self.options.maps is None:
            return [write_view(self._page(chosen), path)]
        if html and (
            chosen.view not in (None, "matrix") or chosen.of_view() & {"scale", "width"}
        ):
            raise InputError(
                f"{path}: a .html page shows a matrix of 0 to 1; write .png, .svg or .pdf for other views"
            )
        if chosen.own and isinstance(self.weights, DocumentWeights):
            return [write_document(self.weights, path, title=self.heading)]
        if html and chosen.own and isinstance(self.weights, TextWeights):
            return [
                write_view(
                    replace(self, lookups=(of_text(self.weights),))._page(chosen), path
                )
            ]
        if html:
            maps = (
                [(self.heading, self._matrix())]
                if chosen.own
                else self._matrices(chosen)
            )
            return [
                write(each, at, title=title)
                for (title, each), at in zip(
                    maps, numbered(path, len(maps)), strict=True
                )
            ]
        figures = self._figures(chosen)
        return [
            write_figure(figure, at, title=title, width=chosen.width)
            for (title, figure), at in zip(
                figures, numbered(path, len(figures)), strict=True
            )
        ]

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """The notebook's display: the page in a sandboxed frame, as `pictures.View`."""
        return self._page(FigureOptions())._repr_mimebundle_(include, exclude)

    def _page(self, options: FigureOptions) -> View:
        return View(
            *self.lookups,
            title=self.heading,
            largest=options.largest,
            breakdown_limit=options.breakdown_limit,
        )

    def _figures(self, options: FigureOptions) -> "list[tuple[str, Figure]]":
        """The figures, each with its title."""
        if not options.own:
            return self._of_view(options)
        if self.draw is not None:
            return [(self.heading, self.draw(self.heading))]
        if isinstance(self.weights, DocumentWeights):
            return [(self.heading, document_figure(self.weights, title=self.heading))]
        if isinstance(self.weights, TextWeights):
            return [(self.heading, shaded(self.weights, title=self.heading))]
        if is_long(self.weights):
            return [self._strongest()]
        matrix = self._matrix()
        title = self._matrix_heading
        return [
            (
                title,
                heatmap(
                    matrix,
                    title=title,
                    most=whole_or_greatest(matrix.weights),
                    sides=self.sides,
                ),
            )
        ]

    def _strongest(self) -> "tuple[str, Figure]":
        """The map of a long source with its strongest positions; its greatest weight is darkest."""
        found, most = strongest(self.weights), round_up(self.weights.weights)
        title = f"{self._matrix_heading}\n{found.note}"
        return title, heatmap(
            found.alignment, title=title, most=most, gaps=found.gaps, sides=self.sides
        )

    def _matrix(self) -> Alignment:
        """The map as a matrix. Raises InputError for one that is too large, with an alternative."""
        targets, sources = self.weights.weights.shape
        check_size(sources, targets, PARTS if self.has_heads else WHOLE)
        return self.weights

    def _titled(self, detail: str = "") -> str:
        """The title of a picture with a line on what it shows; without one, of a view that shows all heads."""
        found, note = self.prediction, ""
        if isinstance(found, SearchedPrediction) and not found.finished:
            note = UNFINISHED
        elif isinstance(found, SearchedPrediction) and not found.text.strip():
            note = NO_OUTPUT
        return (
            self.options.heading(visible(beginning(self.title)) or EMPTY, detail) + note
        )

    def _of_view(self, options: FigureOptions) -> "list[tuple[str, Figure]]":
        name = options.view or "matrix"
        if name in self.views:
            view = self.views[name]
            if others := sorted(options.of_view() - view.options):
                raise InputError(
                    f"the option {others[0]} is not supported by this run's view {name}"
                )
            return [(self._titled(), view.draw(options))]
        if name != "entropy":
            return [
                (part.title, VIEWS[name].draw(part)) for part in self._parts(options)
            ]
        options.check()
        if self.options.maps is not None:
            raise InputError(
                "a map is chosen, but the view entropy shows every head; choose no map"
            )
        if self.entropies is not None:
            return [
                (self._titled(), entropy(self.entropies(), len(self.lookups[0].source)))
            ]
        return [(self._titled(), entropy_of(self._heads(name)))]

    def _parts(self, options: FigureOptions) -> list[Part]:
        """The content of each figure of a view."""
        options.check()
        name = options.view or "matrix"
        maps = VIEWS[name].select(self._heads(name), self.options.maps)
        maps = maps.between_words() if options.words else maps
        places = (
            options.places("source", len(maps.source.pieces)),
            options.places("target", len(maps.target.pieces)),
        )
        return VIEWS[name].parts(
            maps,
            places,
            title=self._titled(self.mean_of_heads if VIEWS[name].averaged else ""),
            page=options.page,
            scale=options.scale,
            threshold=options.threshold,
        )

    def _matrices(self, options: FigureOptions) -> list[tuple[str, Alignment]]:
        return [(part.title, part.maps.mean()) for part in self._parts(options)]

    def _heads(self, view: ViewName) -> HeadMaps:
        if not self.has_heads:
            known = f", or choose {', '.join(self.views)}" if self.views else ""
            raise InputError(
                f"the view {view} draws layers of heads, which the model of this run does not have; leave out the view "
                f"(--view) for the run's own picture{known}"
            )
        return HeadMaps.of(self.lookups[0])


def numbered(path: Path, count: int) -> list[Path]:
    """The path, or of several NAME-1, NAME-2 and so on."""
    return (
        [path]
        if count == 1
        else [path.with_stem(f"{path.stem}-{number}") for number in range(1, count + 1)]
    )


def side_by_side(
    attributions: tuple[Attribution, Attribution],
    names: tuple[str, str],
    options: FigureOptions,
) -> View:
    """A page that compares two attributions; `names` distinguish their lookups."""
    first, second = (
        [
            replace(each, name=f"{name}: {each.name}" if len(one.lookups) > 1 else name)
            for each in one.lookups
        ]
        for one, name in zip(attributions, names, strict=True)
    )
    title = " | ".join(dict.fromkeys(each.heading for each in attributions))
    return View(
        *first,
        *second,
        title=title,
        compare=len(first),
        largest=options.largest,
        breakdown_limit=options.breakdown_limit,
    )
