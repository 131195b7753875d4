"""The attribution of a prediction: every layer and head, figures, and an interactive page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.data.tokens import Parts, parts_of
from regard.errors import InputError, quote
from regard.maps.alignment import (
    Alignment,
    DocumentWeights,
    TextWeights,
    is_long,
    select_strongest,
)
from regard.maps.heads import GreatestWeights, HeadMaps
from regard.maps.lookups import Lookups, lookups_from_text
from regard.maps.reductions import mean_entropies
from regard.pictures.heatmap import SIDES, heatmap
from regard.pictures.page import View
from regard.pictures.shaded_text import draw_document as document_figure
from regard.pictures.shaded_text import draw_shaded_text
from regard.pictures.style import choose_scale_end, round_up
from regard.pictures.text import show_invisible
from regard.pictures.views import (
    PAGE_REMEDY,
    PART_REMEDY,
    VIEWS,
    Part,
    check_size,
    draw_entropies,
    draw_head_entropies,
)
from regard.pictures.write import PAGE, write, write_document, write_figure, write_view
from regard.tasks.options import AttributionOptions, FigureOptions, ViewName, options_of
from regard.tasks.prediction import LONGEST, Prediction, SearchedPrediction
from regard.text import Tokenizer

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


def shorten_title(text: str) -> str:
    """Return a text as a title.

    Of a long one the first words, or where it has no blanks the first characters.
    """
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
        names = ", ".join(dict.fromkeys(lookup.name for lookup in self.lookups))
        return f"<Attribution of {quote(self.prediction.text, LONGEST)}: {names or 'weights'}>"

    @property
    def heading(self) -> str:
        """The title of its pictures, and on a line of its own what they show."""
        return self._make_title(self.detail)

    @property
    def mean_of_heads(self) -> str:
        """What a matrix shows, with the number of heads that it averages."""
        if not self.has_heads:
            return "attention weights"
        layers, heads = np.shape(self.lookups[0].weights)[:2]
        chosen = layers * heads if self.options.maps is None else len(self.options.maps)
        location = (
            f" in {layers} layers" if self.options.maps is None and layers > 1 else ""
        )
        return (
            "attention weights"
            if chosen == 1
            else f"attention weights, the mean of {chosen} heads{location}"
        )

    @property
    def _matrix_heading(self) -> str:
        """The title of the matrix; a page has every head."""
        return self._make_title(self.detail or self.mean_of_heads)

    def figure(
        self, options: FigureOptions | None = None, /, **settings: Any
    ) -> "Figure":
        """Return the run's own figure, or a view of its heads.

        `settings` are fields of `FigureOptions`.

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
        """Return a self-contained .html page of all lookups.

        `settings` are `largest` and `breakdown_limit` (`FigureOptions`).

        Raises InputError if the page would be too large.
        """
        return self._page(options_of(FigureOptions, options, settings)).page()

    def greatest(self, count: int | None = None) -> GreatestWeights:
        """The `count` greatest weights of each query in every layer and head of the first lookups, or all. Raises
        InputError for a count below 1."""
        return GreatestWeights.of(self.lookups[0], count)

    def bits(self) -> Sequence[np.ndarray]:
        """The mean entropy of each head of the first lookups over all queries, in bits, a layer at a time."""
        return (
            [*mean_entropies(np.abs(self.lookups[0].weights))]
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
        if html and chosen.uses_default_view and self.options.maps is None:
            return [write_view(self._page(chosen), path)]
        if html and (
            chosen.view not in (None, "matrix")
            or chosen.view_options & {"scale", "width"}
        ):
            raise InputError(
                f"{path}: a .html page shows a matrix of 0 to 1; write .png, .svg or .pdf for other views"
            )
        if chosen.uses_default_view and isinstance(self.weights, DocumentWeights):
            return [write_document(self.weights, path, title=self.heading)]
        if html and chosen.uses_default_view and isinstance(self.weights, TextWeights):
            return [
                write_view(
                    replace(self, lookups=(lookups_from_text(self.weights),))._page(
                        chosen
                    ),
                    path,
                )
            ]
        if html:
            maps = (
                [(self.heading, self._matrix())]
                if chosen.uses_default_view
                else self._matrices(chosen)
            )
            return [
                write(item, at, title=title)
                for (title, item), at in zip(
                    maps, number_paths(path, len(maps)), strict=True
                )
            ]
        figures = self._figures(chosen)
        return [
            write_figure(figure, at, title=title, width=chosen.width)
            for (title, figure), at in zip(
                figures, number_paths(path, len(figures)), strict=True
            )
        ]

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return the notebook's display.

        The page in a sandboxed frame, as `pictures.View`.
        """
        return self._page(FigureOptions())._repr_mimebundle_(include, exclude)

    def _page(self, options: FigureOptions) -> View:
        return View(
            *self.lookups,
            title=self.heading,
            largest=options.largest,
            breakdown_limit=options.breakdown_limit,
        )

    def _figures(self, options: FigureOptions) -> "list[tuple[str, Figure]]":
        """Return the figures, each with its title."""
        if not options.uses_default_view:
            return self._of_view(options)
        if self.draw is not None:
            return [(self.heading, self.draw(self.heading))]
        if isinstance(self.weights, DocumentWeights):
            return [(self.heading, document_figure(self.weights, title=self.heading))]
        if isinstance(self.weights, TextWeights):
            return [(self.heading, draw_shaded_text(self.weights, title=self.heading))]
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
                    vmax=choose_scale_end(matrix.weights),
                    sides=self.sides,
                ),
            )
        ]

    def _strongest(self) -> "tuple[str, Figure]":
        """Return the map of a long source with its strongest positions.

        Its greatest weight is darkest.
        """
        result, maximum = select_strongest(self.weights), round_up(self.weights.weights)
        title = f"{self._matrix_heading}\n{result.note}"
        return title, heatmap(
            result.alignment,
            title=title,
            vmax=maximum,
            gaps=result.gaps,
            sides=self.sides,
        )

    def _matrix(self) -> Alignment:
        """Return the map as a matrix.

        Raises:
            InputError: One that is too large, with an alternative.
        """
        targets, sources = self.weights.weights.shape
        check_size(sources, targets, PART_REMEDY if self.has_heads else PAGE_REMEDY)
        return self.weights

    def _make_title(self, detail: str = "") -> str:
        """Return the title of a picture with a line on what it shows.

        Without one, of a view that shows all heads.
        """
        result, note = self.prediction, ""
        if isinstance(result, SearchedPrediction) and not result.finished:
            note = UNFINISHED
        elif isinstance(result, SearchedPrediction) and not result.text.strip():
            note = NO_OUTPUT
        return (
            self.options.heading(
                show_invisible(shorten_title(self.title)) or EMPTY, detail
            )
            + note
        )

    def _of_view(self, options: FigureOptions) -> "list[tuple[str, Figure]]":
        name = options.view or "matrix"
        if name in self.views:
            view = self.views[name]
            if remaining := sorted(options.view_options - view.options):
                raise InputError(
                    f"the option {remaining[0]} is not supported by this run's view {name}"
                )
            return [(self._make_title(), view.draw(options))]
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
                (
                    self._make_title(),
                    draw_entropies(self.entropies(), len(self.lookups[0].source)),
                )
            ]
        return [(self._make_title(), draw_head_entropies(self._heads(name)))]

    def _parts(self, options: FigureOptions) -> list[Part]:
        """Return the content of each figure of a view."""
        options.check()
        name = options.view or "matrix"
        maps = VIEWS[name].select(self._heads(name), self.options.maps)
        maps = maps.between_words() if options.words else maps
        places = (
            options.select_positions("source", len(maps.source.pieces)),
            options.select_positions("target", len(maps.target.pieces)),
        )
        return VIEWS[name].parts(
            maps,
            places,
            title=self._make_title(self.mean_of_heads if VIEWS[name].averaged else ""),
            page=options.page,
            scale=options.scale,
            threshold=options.threshold,
        )

    def _matrices(self, options: FigureOptions) -> list[tuple[str, Alignment]]:
        return [(part.title, part.maps.mean()) for part in self._parts(options)]

    def _heads(self, view: ViewName) -> HeadMaps:
        if not self.has_heads:
            allowed = f", or choose {', '.join(self.views)}" if self.views else ""
            raise InputError(
                f"the view {view} draws layers of heads, which the model of this run does not have; leave out the view "
                f"(--view) for the run's own picture{allowed}"
            )
        return HeadMaps.of(self.lookups[0])


def number_paths(path: Path, count: int) -> list[Path]:
    """Return the path, or of several NAME-1, NAME-2 and so on."""
    return (
        [path]
        if count == 1
        else [path.with_stem(f"{path.stem}-{number}") for number in range(1, count + 1)]
    )


def compare_attributions(
    attributions: tuple[Attribution, Attribution],
    names: tuple[str, str],
    options: FigureOptions,
) -> View:
    """Return a page that compares two attributions; `names` distinguish their lookups."""
    first, second = (
        [
            replace(
                lookup,
                name=f"{name}: {lookup.name}" if len(attribution.lookups) > 1 else name,
            )
            for lookup in attribution.lookups
        ]
        for attribution, name in zip(attributions, names, strict=True)
    )
    title = " | ".join(dict.fromkeys(item.heading for item in attributions))
    return View(
        *first,
        *second,
        title=title,
        compare=len(first),
        largest=options.largest,
        breakdown_limit=options.breakdown_limit,
    )


ELLIPSIS = "…"
Amounts = Float[np.ndarray, " _token"]


def shade_text(
    tokenizer: Tokenizer, texts: Sequence[str], amounts: Sequence[Amounts], name: str
) -> TextWeights:
    """The amounts of the tokens of each text, of any sign, divided by the sum of all magnitudes: of a word the mean of
    its tokens, since a sum would grow with the word's length. A text of which fewer tokens have an amount was cut
    there, which an ellipsis shows. `name` is the output."""
    parts = []
    for text, amount in zip(texts, amounts, strict=True):
        offsets = tokenizer.offsets(text)
        result = parts_of(text, offsets[: len(amount)])
        parts.append(append_ellipsis(result) if len(amount) < len(offsets) else result)
    return shade_parts(parts, amounts, name)


def append_ellipsis(parts: Parts) -> Parts:
    """Return the parts of a text with an ellipsis behind them, for more text."""
    return Parts((*parts.labels, ELLIPSIS), parts.indices, (*parts.glued, False))


def prepend_ellipsis(parts: Parts) -> Parts:
    """Return the parts of a text with an ellipsis before them, for more text."""
    return Parts(
        (ELLIPSIS, *parts.labels),
        tuple(index + 1 for index in parts.indices),
        (False, *parts.glued),
    )


def shade_parts(
    texts: Sequence[Parts], amounts: Sequence[Amounts], name: str
) -> TextWeights:
    """As `shade_text`, of the parts of each text."""
    labels: list[str] = []
    numbers: list[int] = []
    glued: list[bool] = []
    results: list[np.ndarray] = []
    for number, (parts, current) in enumerate(zip(texts, amounts, strict=True)):
        labels += parts.labels
        glued += parts.glued
        numbers += [number] * len(parts.labels)
        places, count = np.array(parts.indices, np.int64), len(parts.labels)
        results.append(
            np.bincount(places, current, count)
            / np.maximum(np.bincount(places, minlength=count), 1)
        )
    full = np.concatenate([*results, np.zeros(0)])
    total = sum(float(np.abs(amount).sum()) for amount in amounts)
    averaged = any(len(text.indices) > len(set(text.indices)) for text in texts)
    return TextWeights(
        tuple(labels),
        full / total if total else full,
        name,
        tuple(numbers),
        tuple(glued),
        averaged,
    )
