"""The operations of a served run: predict, stream and attribute."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from jaxtyping import Float
from pydantic import Field

from regard.attribution.attention import check_kinds
from regard.attribution.effects import MapCut
from regard.attribution.kinds import GRADIENTS
from regard.data.tokens import count_together
from regard.decoding.streaming import StreamEvent
from regard.errors import InputError
from regard.maps.lookups import Lookups
from regard.pictures.heatmap import LABELS
from regard.pictures.page import build_payload
from regard.serve.requests import (
    AttributionKinds,
    CutRequests,
    Json,
    RequestBody,
    build_body_type,
    read_options,
)
from regard.serve.worker import (
    IsActive,
    Operation,
    Operations,
    Replicas,
    ResponsePart,
    respond_at_once,
)
from regard.tasks.options import AttributionOptions, PredictOptions, StreamOptions
from regard.tasks.run import Run

P = TypeVar("P", bound=PredictOptions)
MAX_WEIGHTS = 1 << 14
"""Weights sent with one token; if there are more, their mean over heads is sent."""


def build_operations(replicas: Replicas[Any]) -> Operations:
    """Build the operations that a run supports; none for one that predicts nothing."""
    run: Run[Any, Any] = replicas.run
    verbs = RunVerbs(replicas)
    supports = run.supports
    attends = any(kind not in GRADIENTS for kind in run.kinds)
    operations: Operations = {}

    if "predict" in supports:
        body = build_body_type(run.inputs, PredictOptions, supports["predict"])
        group = partial(verbs.group, PredictOptions)
        operations["predict"] = Operation(body, respond_at_once(verbs.predict), group)
    if "stream" in supports:
        extra = {"view": (bool, False), "kinds": (AttributionKinds, ())}
        body = build_body_type(
            run.inputs,
            StreamOptions,
            supports["stream"],
            **extra,
        )
        group = partial(verbs.group, StreamOptions)
        operations["stream"] = Operation(
            body,
            verbs.stream,
            group,
            streams=True,
        )
    if attends and "attribute" in supports:
        forced = Annotated[int, Field(ge=0, le=2000)]
        extra = {"cuts": (CutRequests, ()), "forced": (forced, 0)}
        body = build_body_type(
            run.inputs,
            AttributionOptions,
            supports["attribute"],
            **extra if run.cut_modules else {},
        )
        operations["attention"] = Operation(
            body, respond_at_once(verbs.respond_with_views)
        )
    return operations


@dataclass(frozen=True)
class RunVerbs:
    """The verbs of a run, called with the bodies of requests."""

    replicas: Replicas[Any]

    def example(self, request: RequestBody) -> Any:
        """Return the example of a request.

        Raises:
            InputError: Its values describe none.
        """
        run = self.replicas.run
        return run.example({key: getattr(request, key) for key in run.inputs})

    @property
    def continues(self) -> bool:
        """Whether predictions are continuations of a prompt."""
        return "tokens" in self.replicas.run.supports.get("predict", ())

    def group(self, kind: type[PredictOptions], request: RequestBody) -> Hashable:
        """Return the group of a request: its options.

        Samples depend on their batch, so a request that samples is alone.
        """
        options = read_options(request, kind)
        is_alone = options.sampling
        if kind is PredictOptions and not self.continues and options.beam is None:
            is_alone = is_alone or self.replicas.run.samples(options)
        return id(request) if is_alone else options

    def predict(self, requests: Sequence[RequestBody]) -> list[Json]:
        """Predict a batch: by the run's search, or for prompts like `stream`."""
        options = read_options(requests[0], PredictOptions)
        if self.continues:
            options = self.make_deterministic(options)
        examples = list(map(self.example, requests))
        with count_together(logged=False):  # each answer has its warnings
            predictions = self.replicas.current.predict(examples, options)
        responses = []
        for example, prediction in zip(examples, predictions, strict=True):
            responses.append(prediction.to_json() | self.warnings(example))
        return responses

    def warnings(self, example: Any) -> Json:
        """Return the key `warnings` about an example, if there are any."""
        run = self.replicas.run
        warnings = list(run.warnings(example))
        if truncation := run.cut(example):
            warnings.append(truncation)
        return {"warnings": warnings} if warnings else {}

    def stream(
        self, requests: Sequence[Any], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the lines of a batch: `start`, `token`s, and `done` with the view.

        `start` comes once the first step has shown that nothing is wrong with any.
        """
        for request in requests:
            check_kinds(request.kinds or (), self.replicas.run.kinds)
        options = self.make_deterministic(read_options(requests[0], StreamOptions))
        examples = list(map(self.example, requests))
        tokens: list[list[int]] = [[] for _ in requests]
        run = self.replicas.current
        for event in run.stream(examples, options, active=active):
            number = event.number
            if not tokens[number]:
                yield ResponsePart(number, describe_start(event), last=False)
            tokens[number].append(event.token)
            yield ResponsePart(number, describe_token(event), last=False)
            if event.last:
                example = examples[number]
                done = {
                    "event": "done",
                    "text": event.text,
                    "score": event.score,
                    "finished": event.finished,
                }
                done |= self.final_view(requests[number], example, tokens[number])
                yield ResponsePart(number, done | self.warnings(example))

    def final_view(self, request: Any, example: Any, tokens: Sequence[int]) -> Json:
        """Return the `view` of an answer, or in `unseen` why there is none."""
        kinds = request.kinds
        if not kinds and "weights" in self.replicas.run.kinds:
            kinds = ("weights",)
        if not request.view or not kinds:
            return {}
        options = AttributionOptions(target_tokens=tuple(tokens), kinds=kinds)
        try:
            return {"view": build_payload(self.attribute(example, options).lookups)}
        except InputError as error:
            return {"unseen": str(error)}

    def respond_with_views(self, requests: Sequence[Any]) -> list[Json]:
        """Return the views of targets, or the predictions and their views."""
        responses = []
        for request in requests:
            example = self.example(request)
            options = read_options(request, AttributionOptions)
            if options.target is not None and options.beam is not None:
                raise InputError("beam and target are both given. Choose one.")
            if self.replicas.run.cut_modules and request.cuts:
                responses.append(self.compare_cuts(request, example, options))
                continue
            attribution = self.attribute(example, options)
            view = build_payload(attribution.lookups)
            if options.target is None and options.target_tokens is None:
                prediction = attribution.prediction.to_json()
                view = prediction | {"view": view} | self.warnings(example)
            responses.append(view)
        return responses

    def compare_cuts(
        self, request: Any, example: Any, options: AttributionOptions
    ) -> Json:
        """Return a prediction before and after the cuts of a request."""
        run = self.replicas.current
        run.check_size(example, options, LABELS)
        cuts = [MapCut(cut.queries, cut.keys, cut.maps) for cut in request.cuts]
        return run.compare_cuts(example, cuts, options, forced=request.forced)

    def attribute(self, example: Any, options: AttributionOptions) -> Any:
        """Attribute an example's answer, unless the map would be too large."""
        run = self.replicas.current
        run.check_size(example, options, LABELS)
        with count_together(logged=False):
            return run.attribute(example, options)

    def make_deterministic(self, options: P) -> P:
        """Switch sampling off unless the request has a temperature."""
        is_chosen = options.sampling or options.beam is not None
        if is_chosen or not self.replicas.run.samples(options):
            return options
        return replace(options, temperature=0.0)


def reduce_weights(
    event: StreamEvent, row: Float[np.ndarray, "layer head key"]
) -> Float[np.ndarray, "layer_ head_ key"]:
    """Return the weights of a token, or their mean if the longest row has too many."""
    layers, heads, _ = row.shape
    longest = len(event.source.labels) + event.source.growth
    too_many = layers * heads * longest > MAX_WEIGHTS
    return row.mean((0, 1), keepdims=True) if too_many else row


def describe_start(event: StreamEvent) -> Json:
    """Return the first line of an answer, with the view to which rows are appended."""
    source = event.source
    view = None
    if event.attention is not None:
        row = reduce_weights(event, event.attention)
        layers, heads, keys = row.shape
        lookups = Lookups(
            np.zeros((layers, heads, 0, keys)),
            tuple(source.labels),
            (),
            layers=() if row.shape == event.attention.shape else ("mean",),
            patches=source.patches,
        )
        view = build_payload([lookups])
    return {"event": "start", "forced": source.forced, "view": view}


def describe_token(event: StreamEvent) -> Json:
    """Return the line of one more token."""
    weights = None
    if event.attention is not None:
        weights = reduce_weights(event, event.attention).round(5).tolist()
    return {
        "event": "token",
        "token": event.token,
        "piece": event.piece,
        "text": event.text,
        "log_probability": event.log_probability,
        "weights": weights,
        "candidates": [asdict(candidate) for candidate in event.candidates],
    }
