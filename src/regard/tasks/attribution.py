"""The attribution of a prediction: every layer and head, figures, and a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from regard.attribution.kinds import KIND_NAMES, ROLES
from regard.data.tokens import Parts, parts_of
from regard.errors import InputError, quote
from regard.maps.alignment import (
    DocumentWeights,
    TextWeights,
    is_long,
    select_strongest,
)
from regard.maps.heads import GreatestWeights, HeadMaps
from regard.maps.lookups import Lookups
from regard.pictures.canvas import choose_scale_end, round_up
from regard.pictures.heatmap import SIDES, heatmap
from regard.pictures.page import View
from regard.pictures.shaded_text import draw_document, draw_shaded_text
from regard.pictures.text import show_invisible
from regard.pictures.views import (
    AVERAGED,
    PAGE_REMEDY,
    PART_REMEDY,
    draw_entropies,
    draw_heads,
    select_heads,
)
from regard.pictures.write import PAGE, write_figure, write_view
from regard.tasks.options import (
    LONGEST,
    AttributionOptions,
    FigureOptions,
    GeneratedText,
    Prediction,
    options_of,
)
from regard.text import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEGINNING = 150
"""Largest number of characters of a text in the title of its picture."""
ELLIPSIS = "…"
Amounts = Float[np.ndarray, " _token"]


def shorten_title(text: str) -> str:
    """Return the first words of a long text, or characters where it has no blanks."""
    if len(text) <= BEGINNING:
        return text
    start = text[:BEGINNING]
    return f"{start.rpartition(' ')[0] or start} …"


@dataclass(frozen=True, eq=False)
class Attribution:
    """A prediction and its attribution. A notebook displays it as its page."""

    prediction: Prediction
    title: str
    """The heading of its figures, before the chosen role and kind."""
    lookups: tuple[Lookups, ...]
    """Every layer and head, for a page; several for several roles or tapes."""
    weights: Any
    """The one map of the chosen layers and heads: an `Alignment`, `DocumentWeights`,
    `TextWeights`, or what `draw` draws."""
    options: AttributionOptions = field(default_factory=AttributionOptions)
    has_heads: bool = False
    """Whether the maps of the first lookups have views (`pictures.views`)."""
    draw: "Callable[..., Figure] | None" = None
    """Draws the run's own figure under a title; by default it is that of `weights`."""
    has_contrast: bool = False
    """Whether `draw` takes `contrast=True`, for the view contrast."""
    detail: str = ""
    """What is drawn where no kind is chosen, a line below the title."""
    sides: tuple[str, str] = SIDES
    """What the columns and the rows of a matrix are."""
    rows: tuple[int, ...] | None = None
    """The rows of a map of tokens whose outputs a gradient or an effect explains; None
    for all."""
    about: str = ""
    """A line on a page, such as the model and the date."""

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(lookup.name for lookup in self.lookups))
        text = quote(self.prediction.text, LONGEST)
        return f"<Attribution of {text}: {names or 'weights'}>"

    @property
    def heading(self) -> str:
        """The title of its pictures, and on a line of its own what they show."""
        return self._make_title(self.detail)

    @property
    def mean_of_heads(self) -> str:
        """What a matrix shows, with the number of heads that it averages."""
        name = "attention weights"
        if not self.has_heads:
            return name
        layers, heads = np.shape(self.lookups[0].weights)[:2]
        count = layers * heads
        location = f" in {layers} layers" if layers > 1 else ""
        if self.options.maps is not None:
            count = len(self.options.maps)
            location = ""
        return name if count == 1 else f"{name}, the mean of {count} heads{location}"

    def figure(
        self, options: FigureOptions | None = None, /, **settings: Any
    ) -> "Figure":
        """Return the run's own figure, or a view of its heads.

        Args:
            options: Options of the figure.
            **settings: Fields of `FigureOptions`, in place of `options`.

        Raises:
            InputError: The run has no such view, the view does not support an option,
                the picture is too large, or matplotlib is missing.
        """
        return self._draw(options_of(FigureOptions, options, settings))[1]

    def page(self, options: FigureOptions | None = None, /, **settings: Any) -> str:
        """Return a self-contained .html page of all lookups.

        Raises:
            InputError: The page would be too large.
        """
        return self._view(options_of(FigureOptions, options, settings)).page()

    def greatest(self, count: int | None = None) -> GreatestWeights:
        """Return the greatest weights, or all, of each query in every layer and head.

        Raises:
            InputError: The count is below 1.
        """
        return GreatestWeights(self.lookups[0], count)

    def write(
        self, path: Path | str, options: FigureOptions | None = None, /, **settings: Any
    ) -> Path:
        """Write a figure, .png, .svg or .pdf, or an .html page of all lookups.

        Args:
            path: The file.
            options: Options of the figure.
            **settings: Fields of `FigureOptions`, in place of `options`.

        Returns:
            The file.

        Raises:
            InputError: As `figure`, or the name has another suffix.
            RunError: The file cannot be written.
        """
        path = Path(path)
        chosen = options_of(FigureOptions, options, settings)
        if path.suffix.lower() == PAGE:
            has_view = chosen.view not in ("rollout", "entropy")
            if self.options.maps is not None or chosen.view_options or not has_view:
                raise InputError(
                    f"{path}: an .html page shows every map in the views matrix, lines, "
                    "heads and reading; remove the maps, another view and the options of "
                    "views, or write .png, .svg or .pdf"
                )
            return write_view(self._view(chosen), path)
        title, figure = self._draw(chosen)
        return write_figure(figure, path, title=title, width=chosen.width)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return the notebook's display, the page in a sandboxed frame."""
        return self._view(FigureOptions())._repr_mimebundle_(include, exclude)

    def _view(self, options: FigureOptions) -> View:
        title = self.heading
        output = shorten_title(show_invisible(self.prediction.text))
        if output.strip() and output not in title:
            title += f"\nOutput: {output}"
        return View(
            *self.lookups,
            title="\n".join(filter(None, [title, self.about])),
            largest=options.largest,
            breakdown_limit=options.breakdown_limit,
            view=options.view,
        )

    def _draw(self, options: FigureOptions) -> "tuple[str, Figure]":
        """Return the figure with its title."""
        if options.uses_default_view:
            return self._default_figure()
        name = options.view or "matrix"
        options.check()
        if name == "similarity":
            raise InputError(
                "the view similarity is of two texts; use regard.similarity, or regard "
                "show ENCODER 'A<tab>B' --view similarity"
            )
        if name == "contrast" and self.has_contrast and self.draw is not None:
            return self.heading, self.draw(self.heading, contrast=True)
        if name == "contrast":
            raise InputError(
                "the view contrast is of maps over an image, and this run reads none; "
                "leave out the view (--view)"
            )
        if not self.has_heads:
            raise InputError(
                f"the view {name} draws layers of heads, which the model of this run does "
                "not have; leave out the view (--view) for the run's own picture"
            )
        heads = HeadMaps.of(self.lookups[0])
        chosen = self.options.maps
        if name == "entropy":
            if chosen is not None:
                raise InputError(
                    "a map is chosen, but the view entropy shows every head; choose no map"
                )
            return self._make_title(), draw_entropies(heads)
        maps = select_heads(heads, name, chosen)
        maps = maps.between_words() if options.words else maps
        places = (
            options.select_positions("source", len(maps.source.pieces)),
            options.select_positions("target", len(maps.target.pieces)),
        )
        title = self._make_title(self.mean_of_heads if name in AVERAGED else "")
        return draw_heads(
            maps,
            name,
            places,
            title,
            options.scale,
            options.threshold,
        )

    def _default_figure(self) -> "tuple[str, Figure]":
        """Return the run's own figure; of an alignment, the matrix.

        Of a long source it has the strongest positions; the greatest weight is darkest.
        """
        title = self.heading
        weights = self.weights
        if self.draw is not None:
            return title, self.draw(title)
        if isinstance(weights, DocumentWeights):
            return title, draw_document(weights, title=title)
        if isinstance(weights, TextWeights):
            return title, draw_shaded_text(weights, title=title)
        title = self._make_title(self.detail or self.mean_of_heads)
        if not is_long(weights):
            return title, heatmap(
                weights,
                title=title,
                vmax=choose_scale_end(weights.weights),
                sides=self.sides,
                remedy=PART_REMEDY if self.has_heads else PAGE_REMEDY,
            )
        strongest = select_strongest(weights)
        title = f"{title}\n{strongest.note}"
        return title, heatmap(
            strongest.alignment,
            title=title,
            vmax=round_up(weights.weights),
            gaps=strongest.gaps,
            sides=self.sides,
        )

    def _make_title(self, detail: str = "") -> str:
        """Return the title of a picture with a line on what it shows.

        The line has the chosen role and the chosen kind, or `detail` without a choice.
        Several kinds are not named.
        """
        kinds = self.options.list_kinds()
        if self.options.kinds:
            detail = KIND_NAMES[kinds[0]] if len(kinds) == 1 else ""
        role = self.options.role
        line = ", ".join(filter(None, [role and ROLES[role], detail]))
        lines = [show_invisible(shorten_title(self.title)) or "(empty)", line]
        prediction = self.prediction
        if (self.options.target, self.options.target_tokens) != (None, None):
            lines.append("the output was given (--force), not predicted")
        if isinstance(prediction, GeneratedText):
            if not prediction.finished:
                lines.append("the output reached the length limit unfinished")
            elif not prediction.text.strip():
                lines.append("the output is empty")
        return "\n".join(filter(None, lines))


def compare_attributions(
    attributions: tuple[Attribution, Attribution],
    names: tuple[str, str],
    options: FigureOptions,
) -> View:
    """Return a page that compares two attributions; `names` distinguish their lookups."""
    lookups = []
    for attribution, name in zip(attributions, names, strict=True):
        is_one = len(attribution.lookups) == 1
        for lookup in attribution.lookups:
            label = name if is_one else f"{name}: {lookup.name}"
            lookups.append(replace(lookup, name=label))
    return View(
        *lookups,
        title=" | ".join(dict.fromkeys(item.heading for item in attributions)),
        compare=len(attributions[0].lookups),
        largest=options.largest,
        breakdown_limit=options.breakdown_limit,
    )


def shade_text(
    tokenizer: Tokenizer, texts: Sequence[str], amounts: Sequence[Amounts], name: str
) -> TextWeights:
    """Shade the words of texts by the amounts of their tokens, of any sign.

    Args:
        tokenizer: Cuts the texts into tokens.
        amounts: Amounts of the first tokens of each text. An ellipsis stands for others.
        name: What is explained.
    """
    parts = []
    rows = []
    for text, amount in zip(texts, amounts, strict=True):
        offsets = tokenizer.offsets(text)
        count = min(len(amount), len(offsets))
        words = parts_of(text, offsets[:count])
        parts.append(surround(words, after=[ELLIPSIS] * (count < len(offsets))))
        rows.append(amount[:count])
    return shade_parts(parts, rows, name)


def surround(
    parts: Parts, before: Sequence[str] = (), after: Sequence[str] = ()
) -> Parts:
    """Return the parts of a text between further labels without tokens."""
    indices = tuple(index + len(before) for index in parts.indices)
    glued = (False,) * len(before) + parts.glued + (False,) * len(after)
    return Parts((*before, *parts.labels, *after), indices, glued)


def shade_parts(
    texts: Sequence[Parts],
    amounts: Sequence[Amounts],
    name: str,
    framed: Sequence[int] = (),
) -> TextWeights:
    """Shade the parts of texts by the amounts of their tokens.

    A part has the mean of its tokens, since a sum would grow with its length, divided
    by the sum of all magnitudes.

    Args:
        texts: The parts of each text.
        amounts: Amounts of the tokens of each text.
        name: What is explained.
        framed: The tokens of the last text whose parts are framed.
    """
    first = sum(len(parts.labels) for parts in texts[:-1])
    total = sum(float(np.abs(row).sum()) for row in amounts) or 1.0
    means = [np.zeros(0)]
    for parts, row in zip(texts, amounts, strict=True):
        count = len(parts.labels)
        indices = np.array(parts.indices, np.int64)
        sizes = np.bincount(indices, minlength=count)
        means.append(np.bincount(indices, row, count) / np.maximum(sizes, 1))
    return TextWeights(
        tuple(label for parts in texts for label in parts.labels),
        np.concatenate(means) / total,
        name,
        tuple(number for number, parts in enumerate(texts) for _ in parts.labels),
        tuple(glued for parts in texts for glued in parts.glued),
        any(len(parts.indices) > len(set(parts.indices)) for parts in texts),
        frozenset(first + texts[-1].indices[token] for token in framed),
    )
