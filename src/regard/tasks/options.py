"""The options of a run's verbs, defined once for Python, the command line and the server. Imports nothing heavy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from regard.attribution.kinds import KIND_NAMES, ROLES, Kind, Role
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.decoding.search import Search

Verb = Literal["predict", "stream", "evaluate", "attribute"]
"""The verbs of a run."""
SAMPLING = ("temperature", "top_k", "top_p", "seed")
SHAPING = (
    "min_length",
    "end_at_limit",
    "repetition_penalty",
    "no_repeat",
    "length_penalty",
)
"""The options that replace settings of the run's own search, sampled or not."""
SEARCHING = frozenset({*SAMPLING, *SHAPING, "banned"})
"""The options of every search whose texts are of one vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verb. A default leaves the choice to the run."""

    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults. False for an option whose default is None does not count: every
        run can omit it."""
        values = {each: getattr(self, each.name) for each in fields(self)}
        return {
            each.name: value
            for each, value in values.items()
            if value != each.default and not (value is False and each.default is None)
        }


Chosen = TypeVar("Chosen", bound=Options)


def options_of(
    kind: type[Chosen], options: Chosen | None, settings: Mapping[str, Any]
) -> Chosen:
    """The `options`, or those of the `settings`. Raises TypeError for both at once."""
    if options is not None and settings:
        raise TypeError(
            f"options and {next(iter(settings))} are both given; put {next(iter(settings))} in options"
        )
    return kind(**settings) if options is None else options


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """The options of `predict`: search or sampling.

    beam: width of the search; 1 is greedy.
    n_best: predictions of different texts for each example, best first.
    temperature, top_k, top_p, seed: sample instead of searching (`decoding.Sampler`).
    prefix: the text that every prediction begins with.
    phrases: texts that every prediction contains.
    mbr: of the `n_best`, the one most like the others (minimum Bayes risk).
    attention: whether predictions have attention; None leaves it to the run.
    banned: texts that no prediction contains.
    min_length: the least tokens of a prediction, the end included.
    end_at_limit: end a prediction at its longest, whatever the probability of the end.
    repetition_penalty: divides the scores of tokens that a prediction or its prompt contains; 1 changes nothing.
    no_repeat: no n-gram of this many tokens comes twice; 0 allows all.
    length_penalty: the exponent of the length that divides the log-probability of a beam's predictions.
    tokens: the most tokens of a continuation. Default: the run's own.
    beyond: the behaviour past the model's context: `stop`, or restart from its last part (`slide`).
    """

    beam: int | None = None
    n_best: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    prefix: str = ""
    phrases: Sequence[str] = ()
    mbr: bool = False
    attention: bool | None = None
    banned: Sequence[str] = ()
    min_length: int | None = None
    end_at_limit: bool | None = None
    repetition_penalty: float | None = None
    no_repeat: int | None = None
    length_penalty: float | None = None
    tokens: int | None = None
    beyond: Literal["stop", "slide"] | None = None

    def check(self) -> None:
        """Raises InputError for a beam and sampling at once, or a number out of range."""
        for name in ("min_length", "no_repeat", "length_penalty"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise InputError(f"{name} is {value}; expected at least 0")
        penalty = self.repetition_penalty
        if penalty is not None and not 0 < penalty < float("inf"):
            raise InputError(
                f"repetition_penalty is {penalty}; expected above 0, where 1 changes nothing"
            )
        if self.beam is not None and self.sampling:
            first = next(iter(self.sampling)).replace("_", "-")
            raise InputError(
                f"beam and {first} are both given; a beam searches, {first} is for sampling: choose one"
            )

    @property
    def sampling(self) -> dict[str, Any]:
        """The chosen options of sampling."""
        return {
            name: value for name, value in self.chosen().items() if name in SAMPLING
        }

    def hypotheses(self, search: "Search") -> int:
        """How many hypotheses a search must give for `n_best` different texts: all of a beam, since two may have one
        text. Of samples, and where the risk is computed from all, as many as `n_best`."""
        if self.n_best == 1 or self.mbr or search.temperature is not None:
            return self.n_best
        return max(self.n_best, search.beam)

    def search(self, own: "Search") -> "Search":
        """A run's own search with the chosen beam, sampling and settings in place of its own.

        Raises:
            InputError: as `check`, a seed without a temperature, or a number out of range.
        """
        self.check()
        sampling, chosen = self.sampling, self.chosen()
        own = replace(own, **{name: chosen[name] for name in SHAPING if name in chosen})
        if self.beam is not None:
            return own.searching(self.beam)
        try:
            search = replace(own, **sampling)
        except ValueError as error:
            raise InputError(str(error)) from error
        if sampling and search.temperature is None:
            raise InputError("seed is for sampling; give a temperature too")
        return search


@dataclass(frozen=True, kw_only=True)
class StreamOptions(PredictOptions):
    """The options of `stream`: greedy or sampled outputs, token by token.

    prefix_tokens: ids that every output begins with, in place of `prefix`.
    candidates: the number of most likely tokens in each event.
    """

    prefix_tokens: tuple[int, ...] = ()
    candidates: int = 0

    def forced(self, encode: Callable[[str], Sequence[int]]) -> tuple[int, ...]:
        """The tokens that an output begins with; `encode` tokenizes a prefix. Raises InputError for a prefix as text
        and as tokens at once, and as `encode`."""
        if self.prefix and self.prefix_tokens:
            raise InputError("prefix and prefix_tokens are both given; choose one")
        return tuple(self.prefix_tokens or encode(self.prefix))


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """The options of `evaluate`.

    beam: width of the search; 1 is greedy.
    columns: a table's columns, names or numbers from 1, with commas between: those of source and target, of text,
        second text and label, of question, context and answer, of image and captions, or of word and tag (in JSON of
        text and spans). Default: the run's own.
    skip_bad: leave out bad records and count them.
    cache: states, share and sharpness of a cache beside a language model (Grave 2017).
    """

    beam: int | None = None
    columns: str | None = None
    skip_bad: bool = False
    cache: tuple[int, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class AttributionOptions(Options):
    """The options of `attribute`.

    kinds: the weights; gradient x input; norms of what is read; rollout over all layers. None: the run's own kind.
    maps: these maps only, layer x heads + head; None: all.
    role: the attention of an encoder-decoder: cross, encoder or decoder.
    rows: these queries only, `A:B` is A to B-1, counted from 0: no other weights of a long text are kept.
    beam: width of the search for the prediction.
    target: a forced output instead of the run's prediction, `finished` or not.
    target_tokens: its ids instead of a text, END included if it is finished.
    """

    kinds: Sequence[Kind] = ()
    maps: Sequence[int] | None = None
    role: Role | None = None
    rows: str | None = None
    beam: int | None = None
    target: str | None = None
    finished: bool = True
    target_tokens: Sequence[int] | None = None

    def each_kind(self, default: Kind = "weights") -> tuple[Kind, ...]:
        """The kinds once each, weights first, or the `default`."""
        return tuple(kind for kind in get_args(Kind) if kind in self.kinds) or (
            default,
        )

    def heading(self, title: str, default: str = "") -> str:
        """A title, and on a line of its own the chosen role and kind, or else the `default`; several kinds are not
        named."""
        kinds = (
            [KIND_NAMES[kind] for kind in self.each_kind()] if self.kinds else [default]
        )
        names = [
            *([ROLES[self.role]] if self.role else []),
            *(kinds if len(kinds) == 1 else []),
        ]
        line = ", ".join(name for name in names if name)
        return f"{title}\n{line}" if line else title


ViewName = Literal["matrix", "lines", "heads", "reading", "rollout", "entropy"]
PLACES = frozenset({"words", "source", "target", "page"})
USES: dict[ViewName, frozenset[str]] = {
    "matrix": PLACES | {"scale", "width"},
    "lines": PLACES | {"threshold", "width"},
    "heads": PLACES | {"scale", "width"},
    "reading": PLACES | {"scale", "width"},
    "rollout": PLACES | {"scale", "width"},
    "entropy": frozenset({"width"}),
}
"""The options that each view of head maps supports."""
OF_PAGES = frozenset({"largest", "breakdown_limit"})


@dataclass(frozen=True, kw_only=True)
class FigureOptions(Options):
    """The options of figures. Without any but the size of a page, a run draws its own figure.

    view: of the head maps; by default a matrix where another option is chosen.
    words: between words, separated by blanks, instead of pieces.
    source, target: the source tokens, and the target tokens, that are shown: `A:B` is A to B-1, counted from 0.
    page: places of each side in a picture; several pictures are drawn.
    threshold: the least weight that has a line. Default: 0.15.
    scale: the weight with the darkest colour. Default: 1, or the greatest in views of several heads.
    width: of a picture on paper, in centimetres.
    largest: megabytes that an .html page may have.
    breakdown_limit: numbers that an .html page may have to break lookups down into.
    """

    view: ViewName | None = None
    words: bool = False
    source: str | None = None
    target: str | None = None
    page: int | None = None
    threshold: float | None = None
    scale: float | None = None
    width: float | None = None
    largest: float = 16.0
    breakdown_limit: int = 1_000_000

    def of_view(self) -> frozenset[str]:
        """The chosen options of views, without the view itself."""
        return frozenset(self.chosen()) - OF_PAGES - {"view"}

    @property
    def own(self) -> bool:
        """Whether the run's own figure is drawn."""
        return self.view is None and not self.of_view()

    def check(self) -> None:
        """Raises InputError for a number out of range, or an option that the view does not support."""
        limits = {
            "page": (1, "at least 1"),
            "scale": (0, "more than 0"),
            "width": (0, "more than 0"),
        }
        for name, (least, expected) in limits.items():
            value = getattr(self, name)
            if value is not None and not (
                value >= least if name == "page" else least < value < float("inf")
            ):
                raise InputError(f"{name} is {value}; expected {expected}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InputError(f"threshold is {self.threshold}; expected 0 to 1")
        view = self.view or "matrix"
        for name in sorted(self.of_view() - USES[view]):
            others = ", ".join(each for each, uses in USES.items() if name in uses)
            raise InputError(
                f"the option {name} is not supported by the view {view}, but by {others}"
            )

    def places(self, side: Literal["source", "target"], count: int) -> slice:
        """The chosen places of a side with `count` places. Raises InputError for none."""
        chosen = getattr(self, side)
        return slice(0, count) if chosen is None else span(side, chosen, count)


def span(name: str, chosen: str, count: int) -> slice:
    """The places `A:B` of `count`; `name` is that of the option. Raises InputError for none."""
    first, colon, last = chosen.partition(":")
    if not all(not part or part.isdecimal() for part in (first, last)) or not (
        first or colon
    ):
        raise InputError(
            f"{name} is {chosen!r}; expected A:B, A:, :B or A, numbers from 0"
        )
    begin = int(first or 0)
    end = min(int(last), count) if last else count if colon else begin + 1
    if not begin < end <= count:
        raise InputError(
            f"{name} is {chosen!r}; there are {count} places, from 0: choose some of them"
        )
    return slice(begin, end)
