"""The options of a run's verbs, defined once for Python, the command line and the server. Imports nothing heavy."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from regard.attribution.kinds import Kind, Role
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.decoding.search import Search

Verb = Literal["predict", "stream", "evaluate", "attribute"]
"""What a run can be called for."""
SAMPLING = ("temperature", "top_k", "top_p", "seed")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a verb. One that keeps its default leaves the choice to the run."""

    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default}


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """How predictions are searched or sampled.

    beam: width of the search; 1 is greedy.
    n_best: predictions for each example, best first.
    temperature, top_k, top_p, seed: sample instead of searching (`decoding.Sampler`).
    prefix: what every prediction begins with.
    phrases: what every prediction contains.
    mbr: of the `n_best`, the one most like the others (minimum Bayes risk).
    attention: with what each step of the output read.
    tokens: the most tokens of a continuation.
    beyond: what happens where a text outgrows the model's context: `stop`, or read its last part anew (`slide`).
    """

    beam: int | None = None
    n_best: int = 1
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None
    prefix: str = ""
    phrases: tuple[str, ...] = ()
    mbr: bool = False
    attention: bool = False
    tokens: int = 100
    beyond: Literal["stop", "slide"] | None = None

    @property
    def sampling(self) -> dict[str, Any]:
        """The chosen options of sampling."""
        return {name: value for name, value in self.chosen().items() if name in SAMPLING}

    def search(self, own: "Search") -> "Search":
        """A run's own search with the chosen beam or sampling in place of its own.

        Raises:
            InputError: a beam and sampling are both chosen, a seed without a temperature, or a number out of range.
        """
        sampling = self.sampling
        if self.beam is not None:
            if sampling:
                first = next(iter(sampling)).replace("_", "-")
                raise InputError(
                    f"beam and {first} are both given; a beam searches, {first} is for sampling: choose one"
                )
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
    """How outputs are written token by token, greedily or sampled.

    prefix_tokens: ids that every output begins with, in place of `prefix`.
    candidates: how many of the likeliest tokens each event has.
    """

    prefix_tokens: tuple[int, ...] = ()
    candidates: int = 0


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Options):
    """How a run is scored.

    beam: width of the search; 1 is greedy.
    columns: a table's columns of source and target, names or numbers from 1.
    skip_bad: leave out bad records and count them.
    cache: states, share and sharpness of a cache beside a language model (Grave 2017).
    """

    beam: int | None = None
    columns: str | None = None
    skip_bad: bool = False
    cache: tuple[int, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class AttributionOptions(Options):
    """What a prediction is attributed to, and how.

    kinds: the weights; gradient x input; norms of what is read; rollout over all layers. None: the run's own kind.
    maps: these maps only, layer x heads + head; None: all.
    role: whose attention of an encoder-decoder.
    beam: width of the search for the prediction.
    target: the output that is forced instead of the run's own prediction, `finished` or not.
    """

    kinds: tuple[Kind, ...] = ()
    maps: tuple[int, ...] | None = None
    role: Role | None = None
    beam: int | None = None
    target: str | None = None
    finished: bool = True

    @property
    def kind(self) -> Kind | None:
        """The first of the kinds; None for the run's own."""
        return self.kinds[0] if self.kinds else None
