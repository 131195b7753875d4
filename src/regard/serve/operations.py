"""The operations of a served run: predict, stream, align and attribute."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from regard.attribution.aggregation import check_kinds
from regard.attribution.kinds import Kind
from regard.data.pairs import Pair
from regard.data.tokens import count_together
from regard.decoding.streaming import StreamEvent, StreamSource
from regard.errors import InputError
from regard.maps.links import link_strongest
from regard.maps.lookups import Lookups
from regard.pictures.page import build_payload
from regard.pictures.write import LABELS
from regard.serve.requests import (
    AttributionKinds,
    RequestBody,
    build_body_type,
    read_options,
)
from regard.serve.worker import (
    IsActive,
    Operation,
    Replicas,
    ResponsePart,
    respond_at_once,
)
from regard.tasks.capabilities import Aligns, Scores
from regard.tasks.options import AttributionOptions, PredictOptions, StreamOptions
from regard.tasks.run import Run

P = TypeVar("P", bound=PredictOptions)
MAX_WEIGHTS = 1 << 14
"""Weights sent with one token; if there are more, their mean over heads is sent."""


class TargetBody(RequestBody):
    """A text and its target."""

    text: str
    target: str


def build_operations(replicas: Replicas[Any]) -> dict[str, Operation]:
    """Build the operations that a run supports; none for one that predicts nothing."""
    run: Run[Any, Any] = replicas.run
    verbs, supports = RunVerbs(replicas), run.supports
    attends = any(kind != "gradient" for kind in run.kinds)
    operations: dict[str, Operation] = {}

    if "predict" in supports:
        body = build_body_type(
            "Predict", run.inputs, PredictOptions, supports["predict"]
        )
        group = partial(verbs.group, PredictOptions)
        operations["predict"] = Operation(body, respond_at_once(verbs.predict), group)
    if "stream" in supports:
        body = build_body_type(
            "Stream",
            run.inputs,
            StreamOptions,
            supports["stream"],
            view=(bool, False),
            kinds=(AttributionKinds, ()),
        )
        group = partial(verbs.group, StreamOptions)
        operations["stream"] = Operation(body, verbs.stream, group, streams=True)
    if attends and isinstance(run, Aligns):
        respond = respond_at_once(partial(align, replicas))
        operations["align"] = Operation(TargetBody, respond, lambda request: None)
    if attends and "attribute" in supports:
        body = build_body_type(
            "Attribute", run.inputs, AttributionOptions, supports["attribute"]
        )
        operations["attention"] = Operation(body, respond_at_once(verbs.attribute))
    return operations


@dataclass(frozen=True)
class RunVerbs:
    """The verbs of a run, called with the bodies of requests."""

    replicas: Replicas[Any]

    @property
    def run(self) -> Run[Any, Any]:
        """The run, for what needs no model."""
        return self.replicas.run

    def example(self, request: RequestBody) -> Any:
        """Return the example of a request.

        Raises:
            InputError: Its values describe none.
        """
        return self.run.example({key: getattr(request, key) for key in self.run.inputs})

    @property
    def continues(self) -> bool:
        """Whether predictions are continuations of a prompt."""
        return "tokens" in self.run.supports.get("predict", ())

    def group(self, kind: type[PredictOptions], request: RequestBody) -> Hashable:
        """Return the group of a request: its options.

        Samples depend on their batch, so a request that samples is alone.
        """
        options = read_options(request, kind)
        uses_default = kind is PredictOptions and not self.continues
        if options.sampling:
            return id(request)
        if uses_default and options.beam is None and self.run.samples(options):
            return id(request)
        return options

    def predict(self, requests: Sequence[RequestBody]) -> list[dict[str, Any]]:
        """Predict a batch: by the run's search, or for prompts like `stream`."""
        options = read_options(requests[0], PredictOptions)
        if self.continues:
            options = self.make_deterministic(options)
        examples = [self.example(request) for request in requests]
        with count_together(logged=False):  # each answer has its warnings
            predictions = self.replicas.current.predict(examples, options)
        return [
            self.add_warnings(example, prediction.to_json())
            for example, prediction in zip(examples, predictions, strict=True)
        ]

    def add_warnings(self, example: Any, response: dict[str, Any]) -> dict[str, Any]:
        """Add the warnings about an example to its response, if there are any."""
        warnings = list(self.run.warnings(example))
        if truncation := self.run.cut(example):
            warnings.append(truncation)
        return response | {"warnings": warnings} if warnings else response

    def stream(
        self, requests: Sequence[RequestBody], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the lines of a batch: `start`, `token`s, and `done` with the view."""
        options = self.make_deterministic(read_options(requests[0], StreamOptions))
        examples = [self.example(request) for request in requests]
        views = FinalViews(requests, self.run.kinds, partial(self.look_up, examples))
        events = self.replicas.current.stream(examples, options, active=active)
        for part in views.add(stream_parts(events)):
            if part.last:
                data = self.add_warnings(examples[part.number], part.data)
                part = part._replace(data=data)
            yield part

    def look_up(
        self,
        examples: Sequence[Any],
        number: int,
        tokens: Sequence[int],
        kinds: Sequence[Kind],
    ) -> Sequence[Lookups]:
        """Return the lookups of an example's output tokens."""
        options = AttributionOptions(target_tokens=tuple(tokens), kinds=tuple(kinds))
        return self._run_attribution(examples[number], options).lookups

    def attribute(self, requests: Sequence[RequestBody]) -> list[dict[str, Any]]:
        """Return the views of targets, or the predictions and their views."""
        responses = []
        for request in requests:
            example = self.example(request)
            options = read_options(request, AttributionOptions)
            if options.target is not None and options.beam is not None:
                raise InputError("beam and target are both given. Choose one.")
            attribution = self._run_attribution(example, options)
            view = build_payload(list(attribution.lookups))
            if options.target is None and options.target_tokens is None:
                prediction = attribution.prediction.to_json()
                view = self.add_warnings(example, prediction | {"view": view})
            responses.append(view)
        return responses

    def _run_attribution(self, example: Any, options: AttributionOptions) -> Any:
        run = self.replicas.current
        run.check_size(example, options, LABELS)
        with count_together(logged=False):
            return run.attribute(example, options)

    def make_deterministic(self, options: P) -> P:
        """Switch sampling off unless the request has a temperature."""
        if options.sampling or options.beam is not None:
            return options
        if not self.run.samples(options):
            return options
        return replace(options, temperature=0.0)


def align(
    replicas: Replicas[Any], requests: Sequence[TargetBody]
) -> list[dict[str, Any]]:
    """Return words, weights, links and log-probabilities of texts and their targets.

    Raises:
        InputError: A text or target is too long.
    """
    run: Any = replicas.current
    pairs = []
    for number, request in enumerate(requests, 1):
        run.check_size(request.text, AttributionOptions(target=request.target), LABELS)
        pairs.append(Pair(request.text, request.target, f"text {number}"))
    alignments = run.align(pairs)
    scores = run.score(pairs) if isinstance(run, Scores) else [None] * len(pairs)
    responses = []
    for alignment, log_probabilities in zip(alignments, scores, strict=True):
        responses.append(
            {
                "source": list(alignment.source),
                "target": list(alignment.target),
                "weights": alignment.weights.round(5).tolist(),
                "links": sorted(link_strongest(alignment.weights)),
                "log_probabilities": log_probabilities,
            }
        )
    return responses


@dataclass(frozen=True)
class WeightRows:
    """The weights of an answer while it is decoded: one row per token.

    Attributes:
        averages: Whether rows are means over layers and heads.
    """

    averages: bool

    @classmethod
    def choose(
        cls, row: Float[np.ndarray, "layer head key"], source: StreamSource
    ) -> "WeightRows":
        """Choose the form of the rows by the size of the longest one."""
        layers, heads, keys = row.shape
        return cls(layers * heads * (keys + source.growth) > MAX_WEIGHTS)

    def reduce(
        self, row: Float[np.ndarray, "layer head key"]
    ) -> Float[np.ndarray, "layer_ head_ key"]:
        """Return what is sent of a row."""
        return row.mean((0, 1), keepdims=True) if self.averages else row

    def start(
        self, row: Float[np.ndarray, "layer head key"], source: StreamSource
    ) -> dict[str, Any]:
        """Return the view without rows, for `regard.mount`."""
        layers, heads, keys = self.reduce(row).shape
        empty = Lookups(
            np.zeros((layers, heads, 0, keys)),
            tuple(source.labels),
            (),
            layers=("mean",) if self.averages else (),
            patches=source.patches,
        )
        return build_payload([empty])

    def to_json(self, row: Float[np.ndarray, "layer head key"]) -> list[Any]:
        """Return a row for the view's `append`."""
        return np.round(self.reduce(row), 5).tolist()


def stream_parts(events: Iterator[StreamEvent]) -> Iterator[ResponsePart]:
    """Yield the lines of answers.

    `start` comes once the first step has shown that nothing is wrong with any of them.
    """
    rows: dict[int, WeightRows | None] = {}
    for event in events:
        number, attention = event.number, event.attention
        if number not in rows:
            view = form = None
            if attention is not None:
                form = WeightRows.choose(attention, event.source)
                view = form.start(attention, event.source)
            rows[number] = form
            start = {"event": "start", "forced": event.source.forced, "view": view}
            yield ResponsePart(number, start, last=False)
        form = rows[number]
        token = {
            "event": "token",
            "token": event.token,
            "piece": event.piece,
            "text": event.text,
            "log_probability": event.log_probability,
            "weights": None,
            "candidates": [asdict(candidate) for candidate in event.candidates],
        }
        if form is not None and attention is not None:
            token["weights"] = form.to_json(attention)
        yield ResponsePart(number, token, last=False)
        if event.last:
            done = {
                "event": "done",
                "text": event.text,
                "score": event.score,
                "finished": event.finished,
            }
            yield ResponsePart(number, done)


@dataclass(frozen=True)
class FinalViews:
    """Adds a view of the complete answer to its last line.

    Attributes:
        requests: The batch; `view` requests a view, `kinds` its kinds.
        kinds: The kinds that the run supports.
        look_up: The lookups of an answer, from its number, tokens and kinds.
    """

    requests: Sequence[Any]
    kinds: Sequence[Kind]
    look_up: Callable[[int, Sequence[int], Sequence[Kind]], Sequence[Lookups]]

    def add(self, parts: Iterator[ResponsePart]) -> Iterator[ResponsePart]:
        """Yield the parts, the last ones with a `view`, or with why in `unseen`.

        Raises:
            InputError: Before the first part, if a kind is not supported.
        """
        for request in self.requests:
            check_kinds(request.kinds or (), self.kinds)
        tokens: list[list[int]] = [[] for _ in self.requests]
        for part in parts:
            number = part.number
            if part.data["event"] == "token":
                tokens[number].append(part.data["token"])
            if part.last:
                view = self._view(number, tokens[number])
                part = part._replace(data=part.data | view)
            yield part

    def _view(self, number: int, tokens: Sequence[int]) -> dict[str, Any]:
        request = self.requests[number]
        kinds: Sequence[Kind] = request.kinds
        if not kinds and "weights" in self.kinds:
            kinds = ("weights",)
        if not request.view or not kinds:
            return {}
        try:
            return {"view": build_payload(list(self.look_up(number, tokens, kinds)))}
        except InputError as error:
            return {"unseen": str(error)}
