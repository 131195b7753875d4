"""The options of a run's verbs, and the predictions that the verbs return.

Options are declared once for Python, the command line and the server: a field's `Option`
has its help and its bounds; `list_options` returns a verb's options. This module imports
nothing heavy, because the command line imports it at every start.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    runtime_checkable,
)

from regard.attribution.kinds import Kind, Role
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.decoding.search import Search

Json = dict[str, Any]
"""Plain values by name."""
Verb = Literal["predict", "stream", "evaluate", "attribute"]
"""The verbs of a run."""
SAMPLING = ("temperature", "top_k", "top_p", "seed")
"""Options of sampling."""
SHAPING = (
    "min_length",
    "end_at_limit",
    "repetition_penalty",
    "no_repeat",
    "length_penalty",
)
"""Options that replace settings of the run's own search, sampled or not."""
SEARCHING = frozenset({*SAMPLING, *SHAPING})
"""Options of every search whose texts are of one vocabulary."""
ViewName = Literal[
    "matrix",
    "lines",
    "heads",
    "reading",
    "rollout",
    "entropy",
    "contrast",
    "similarity",
]
"""Views of attention heads."""


@dataclass(frozen=True)
class Option:
    """The declaration of an option, in the metadata of its field.

    Attributes:
        help: What it does, a sentence for `--help` and for an API's schema.
        least: Smallest value.
        above: Value that it exceeds.
        most: Largest value.
        served: Largest value, or of a sequence largest length, that a server accepts.
        flag: Name on the command line, by default the field's with dashes.
    """

    help: str
    least: int | float | None = None
    above: int | float | None = None
    most: int | float | None = None
    served: int | None = None
    flag: str = ""

    def check(self, name: str, value: int | float) -> None:
        """Raise InputError for a number out of bounds, or one that is not finite."""
        bounds = (
            ("at least", self.least, operator.ge),
            ("above", self.above, operator.gt),
            ("at most", self.most, operator.le),
        )
        for words, bound, holds in bounds:
            if bound is not None and not holds(value, bound):
                raise InputError(f"{name} is {value}; expected {words} {bound:g}")
        if not math.isfinite(value):
            raise InputError(f"{name} is {value}; expected a finite number")


def option(default: Any, help: str, **declaration: Any) -> Any:
    """Declare a field with the arguments of its `Option`."""
    return field(default=default, metadata={"option": Option(help, **declaration)})


BEAM = "Width of the search; 1 is greedy. Default: the run's own."


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verb. A default leaves the choice to the run."""

    def chosen(self) -> Json:
        """Return the options that differ from their defaults.

        False counts as unset where the default is None.
        """
        values = {}
        for item in fields(self):
            value = getattr(self, item.name)
            is_off = value is False and item.default is None
            if value != item.default and not is_off:
                values[item.name] = value
        return values

    def check(self) -> None:
        """Raise InputError for a number out of bounds."""
        for name, option in list_options(type(self)).items():
            value = getattr(self, name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                option.check(name, value)


OptionsType = TypeVar("OptionsType", bound=Options)


def list_options(kind: type[Options]) -> dict[str, Option]:
    """Return the declaration of each option of a verb, by its name."""
    return {item.name: item.metadata["option"] for item in fields(kind)}


def options_of(
    kind: type[OptionsType], options: OptionsType | None, settings: Mapping[str, Any]
) -> OptionsType:
    """Return the options, or the settings as options; `kind` and `map` name a single one.

    Raises:
        TypeError: Both are given.
    """
    if options is not None and settings:
        name = next(iter(settings))
        raise TypeError(f"options and {name} are both given; put {name} in options")
    values = dict(settings)
    for name in values.keys() & {"kind", "map"}:
        values[f"{name}s"] = [values.pop(name)]
    return kind(**values) if options is None else options


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """The options of `predict`."""

    beam: int | None = option(None, BEAM, least=1, served=64)
    n_best: int = option(
        1,
        "Number of different predictions for each example, best first.",
        least=1,
        served=64,
    )
    temperature: float | None = option(
        None,
        "Sample instead of searching: 1 from the model's distribution, below 1 "
        "likely tokens more often.",
        least=0,
        served=100,
    )
    top_k: int | None = option(
        None, "Sample from the k best tokens only; 0 is all.", least=0
    )
    top_p: float | None = option(
        None,
        "Sample from the best tokens that together have this probability.",
        above=0,
        most=1,
    )
    seed: int | None = option(None, "Seed of the samples.", least=0, most=2**63 - 1)
    prefix: str = option("", "Beginning of every prediction.")
    attention: bool | None = option(
        None, "Whether predictions have attention. Default: the run's own."
    )
    min_length: int | None = option(
        None, "Least tokens of a prediction, its end included.", least=0, served=2000
    )
    end_at_limit: bool | None = option(
        None, "End a prediction at its longest, even within a sentence."
    )
    repetition_penalty: float | None = option(
        None,
        "Above 1: tokens that the prediction or its prompt contains become less "
        "likely; 1 changes nothing.",
        above=0,
        served=100,
    )
    no_repeat: int | None = option(
        None,
        "No sequence of this many tokens occurs twice in a prediction; 0 allows all.",
        least=0,
        served=2000,
    )
    length_penalty: float | None = option(
        None,
        "Exponent of the length that divides the log-probability of a beam's "
        "predictions; above 0 favors longer ones.",
        least=0,
        served=100,
    )
    tokens: int | None = option(
        None,
        "Most tokens of a continuation. Default: the run's own.",
        least=1,
        served=2000,
    )

    def check(self) -> None:
        """Raise InputError for a beam with sampling, or a number out of bounds."""
        super().check()
        if self.beam is not None and self.sampling:
            name = next(iter(self.sampling)).replace("_", "-")
            raise InputError(
                f"beam and {name} are both given; a beam searches, {name} is for "
                "sampling: choose one"
            )

    @property
    def sampling(self) -> Json:
        """The chosen options of sampling."""
        return {name: v for name, v in self.chosen().items() if name in SAMPLING}

    def count_hypotheses(self, search: "Search") -> int:
        """Return how many hypotheses a search must return for `n_best` different texts.

        All of a beam, since two may have one text; of samples as many as `n_best`.
        """
        if self.n_best == 1 or search.temperature is not None:
            return self.n_best
        return max(self.n_best, search.beam)

    def search(self, default: "Search") -> "Search":
        """Return a run's search with the chosen beam, sampling and settings.

        Raises:
            InputError: As `check`, or a seed without a temperature.
        """
        self.check()
        chosen = {name: v for name, v in self.chosen().items() if name in SEARCHING}
        try:
            search = replace(default, **chosen).with_beam(self.beam)
        except ValueError as error:
            raise InputError(str(error)) from error
        if self.sampling and search.temperature is None:
            raise InputError("seed is for sampling; give a temperature too")
        return search


@dataclass(frozen=True, kw_only=True)
class StreamOptions(PredictOptions):
    """The options of `stream`: greedy or sampled outputs, token by token."""

    prefix_tokens: tuple[int, ...] = option(
        (), "Ids that every output begins with, instead of prefix.", served=2000
    )
    candidates: int = option(
        0, "Number of most likely tokens in each event.", least=0, served=20
    )

    def encode_prefix(self, encode: Callable[[str], Sequence[int]]) -> tuple[int, ...]:
        """Return the tokens that an output begins with.

        Args:
            encode: Tokenizes a prefix.

        Raises:
            InputError: A prefix is given as text and as tokens; as `encode`.
        """
        if self.prefix and self.prefix_tokens:
            raise InputError("prefix and prefix_tokens are both given; choose one")
        return tuple(self.prefix_tokens or encode(self.prefix))


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """The options of `evaluate`."""

    beam: int | None = option(None, BEAM, least=1, served=64)
    columns: str | None = option(
        None,
        "Columns of a table, names or numbers from 1, with commas between: of source "
        "and target, of text, second text and label, of question, context and answer, "
        "of image and captions, or of word and tag. Default: the run's own.",
    )
    skip_bad: bool = option(False, "Leave out bad records and count them.")


@dataclass(frozen=True, kw_only=True)
class AttributionOptions(Options):
    """The options of `attribute`."""

    kinds: Sequence[Kind] = option(
        (),
        "The weights; gradient x input; integrated gradients; the norms of weighted values; rollout over all "
        "layers; or the effect of cutting attention. Repeatable. Default: the run's own.",
        served=6,
        flag="kind",
    )
    maps: Sequence[int] | None = option(
        None,
        "Only these maps, layer x heads + head, from 0. Default: all.",
        served=1024,
        flag="map",
    )
    cut: str = option(
        "position",
        "What an effect cuts: a position from all queries; word, with all its pieces; "
        "edge, of a single query; or what is cut together: words of the text, or spans "
        "of positions from 0, as 3:6 or 3:6,8:9.",
    )
    role: Role | None = option(
        None,
        "Attention of an encoder-decoder: cross, of the output to its source; encoder "
        "or decoder, the self-attention of that side. Default: cross.",
    )
    beam: int | None = option(None, BEAM, least=1, served=64)
    target: str | None = option(
        None, "A forced output instead of the run's prediction.", flag="force"
    )
    finished: bool = option(True, "Whether the forced output is finished.")
    target_tokens: Sequence[int] | None = option(
        None, "Ids of a forced output, the end included if it is finished.", served=2000
    )

    def encode_target(
        self, encode: Callable[[str], Sequence[int]], end: int
    ) -> list[int] | None:
        """Return the tokens of the forced output, None without one.

        Args:
            encode: Tokenizes a text.
            end: The token that ends a finished output.
        """
        if self.target_tokens is not None:
            return list(self.target_tokens)
        if self.target is None:
            return None
        return [*encode(self.target), *[end] * self.finished]

    def list_kinds(self, default: Kind = "weights") -> tuple[Kind, ...]:
        """Return the kinds without repeats, weights first, or the default."""
        kinds = tuple(kind for kind in get_args(Kind) if kind in self.kinds)
        return kinds or (default,)


RANGES = frozenset({"words", "source", "target", "width"})
VIEW_OPTIONS: dict[ViewName, frozenset[str]] = {
    "matrix": RANGES | {"scale"},
    "lines": RANGES | {"threshold"},
    "heads": RANGES | {"scale"},
    "reading": RANGES | {"scale"},
    "rollout": RANGES | {"scale"},
    "entropy": frozenset({"width"}),
    "contrast": frozenset({"width"}),
    "similarity": frozenset({"width"}),
}
"""The options that each view of attention heads supports."""
PAGE_OPTIONS = frozenset({"largest", "breakdown_limit"})
"""Options of an .html page."""


@dataclass(frozen=True, kw_only=True)
class FigureOptions(Options):
    """The options of figures. Without any of a view, a run draws its own figure."""

    view: ViewName | None = option(
        None,
        "matrix; lines between two copies of the text, a color for each head; heads, "
        "all of all layers side by side; reading, the text shaded by what each token "
        "attends to; rollout, all layers together beside the last; entropy of every head; "
        "contrast, each map of an image from its least to its greatest weight; "
        "similarity, of two texts for an encoder. "
        "Default: matrix; of classes of texts the shaded text, of images a heat map.",
    )
    words: bool = option(False, "Between words separated by spaces instead of tokens.")
    source: str | None = option(
        None, "Only the source tokens A to B-1, as A:B, from 0.", flag="source-range"
    )
    target: str | None = option(
        None, "Only the target tokens A to B-1, as A:B, from 0.", flag="target-range"
    )
    threshold: float | None = option(
        None, "Of lines: the least weight that has one. Default: 0.15.", least=0, most=1
    )
    scale: float | None = option(
        None,
        "Weight with the darkest color. Default: 1; of several heads the greatest.",
        above=0,
    )
    width: float | None = option(None, "Of a .png on paper, in centimeters.", above=0)
    largest: float = option(16.0, "Megabytes that an .html page may have.")
    breakdown_limit: int = option(
        1_000_000,
        "Numbers in an .html page for the breakdown of lookups; beyond this maximum "
        "it has none.",
        flag="worked",
    )

    @property
    def view_options(self) -> frozenset[str]:
        """The chosen options of views, without the view itself."""
        return frozenset(self.chosen()) - PAGE_OPTIONS - {"view"}

    @property
    def uses_default_view(self) -> bool:
        """Whether the run's own figure is drawn."""
        return self.view is None and not self.view_options

    def check(self) -> None:
        """Raise InputError for a number out of bounds, or an option of another view."""
        super().check()
        view = self.view or "matrix"
        for name in sorted(self.view_options - VIEW_OPTIONS[view]):
            views = [v for v, options in VIEW_OPTIONS.items() if name in options]
            raise InputError(
                f"the option {name} is not supported by the view {view}, but by "
                f"{', '.join(views)}"
            )

    def select_positions(self, side: Literal["source", "target"], count: int) -> slice:
        """Return the chosen positions of a side with `count` positions.

        Raises:
            InputError: There are none.
        """
        text = getattr(self, side)
        if text is None:
            return slice(0, count)
        bounds = f"{text}:{int(text) + 1}" if text.isdecimal() else text
        match = re.fullmatch(r"(\d*):(\d*)", bounds)
        if match is None:
            raise InputError(f"{side} is {text!r}; expected A:B or A, numbers from 0")
        positions = range(count)[int(match[1] or 0) : int(match[2] or count)]
        if not positions:
            raise InputError(
                f"{side} is {text!r}; there are {count} positions, from 0: choose from "
                "them"
            )
        return slice(positions.start, positions.stop)


if TYPE_CHECKING:
    from regard.maps.alignment import Alignment

LONGEST = 100
"""Largest number of characters of a prediction in its `repr`."""


@runtime_checkable
class Prediction(Protocol):
    """A prediction for one example."""

    @property
    def text(self) -> str:
        """The prediction as text."""
        ...

    def lines(self) -> list[str]:
        """Return the lines that the command line prints, without line ends."""
        ...

    def to_json(self) -> Json:
        """Return plain values for JSON."""
        ...


class ShortRepr:
    """A prediction with a `repr` of its lines, cut to a line of a notebook."""

    def lines(self: Prediction) -> list[str]:
        """Return the text on one line."""
        return [flat(self.text)]

    def to_json(self: Prediction) -> Json:
        """Return the fields."""
        return dict(vars(self))

    def __repr__(self: Prediction) -> str:
        text = " | ".join(self.lines()).replace("\t", " ")
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}..."
        return f"<{type(self).__name__} {text}>"


@dataclass(frozen=True, repr=False)
class TextPrediction(ShortRepr):
    """A prediction of a text with some values."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the text and the values."""
        return {"prediction": self.text, **self.values}


@dataclass(frozen=True, repr=False)
class GeneratedText(ShortRepr):
    """A text that a model wrote: a translation, a continuation, a caption, a transcript."""

    text: str
    score: float
    """Log-probability, divided by the length penalty, if any."""
    finished: bool
    """Whether the model ended the text before the limit."""
    tokens: tuple[str, ...]
    """Readable pieces. The end is among them where `attention` has a row for it."""
    attention: "Alignment | None" = None
    """A row for each token, a column for each piece of the source: the mean of all heads."""
    alternatives: "tuple[GeneratedText, ...]" = ()
    """The next best texts."""
    prompt: str | None = None
    """The text that is continued."""
    ids: tuple[int, ...] = ()
    """The ids of the tokens."""

    def lines(self) -> list[str]:
        """Return the text on one line, a continuation with its prompt as it is."""
        if self.prompt is None:
            return [flat(self.text)]
        return f"{self.prompt}{self.text}".split("\n")

    def to_json(self) -> Json:
        """Return plain values for JSON."""
        values: Json = {} if self.prompt is None else {"prompt": self.prompt}
        values |= {name: getattr(self, name) for name in ("text", "score", "finished")}
        values["tokens"] = list(self.tokens)
        values["attention"] = self.attention and {
            "source": list(self.attention.source),
            "target": list(self.attention.target),
            "weights": self.attention.weights.astype(float).round(6).tolist(),
        }
        values["alternatives"] = [text.to_json() for text in self.alternatives]
        return values

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> dict[str, str]:
        """Return a notebook's display: the text, and its attention in a frame."""
        bundle = {"text/plain": self.text}
        if self.attention is None:
            return bundle
        from regard.maps.lookups import lookups_from_alignment
        from regard.pictures.page import View

        view = View(lookups_from_alignment(self.attention), title=self.text)
        return view._repr_mimebundle_() | bundle


def rank_distinct(texts: Sequence[Any], count: int) -> Any:
    """Return the best of some texts with the next best as its alternatives.

    A text may have several segmentations, and a sample may come twice.

    Args:
        texts: At least one `GeneratedText`, best first.
        count: Largest number of different texts.
    """
    first: dict[str, Any] = {}
    for text in texts:
        first.setdefault(text.text, text)
    best, *alternatives = list(first.values())[:count]
    return replace(best, alternatives=tuple(alternatives))


def flat(text: str) -> str:
    """Return a text on one line."""
    return text.replace("\r", " ").replace("\n", " ")
