"""The operations of a run, from the verbs and options that it supports, whatever its task."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from regard.attribution.kinds import Kind
from regard.data.pair import Pair
from regard.data.truncation import counted_together
from regard.errors import InputError
from regard.maps.links import strongest
from regard.maps.lookups import Lookups
from regard.pictures.payload import payload
from regard.pictures.write import LABELS
from regard.serve.operation import Active, Operation, ResponsePart, at_once
from regard.serve.replica import Replicas
from regard.serve.request import (
    AttributionKinds,
    RequestBody,
    body_type,
    request_options,
)
from regard.serve.stream import LastViews, stream_parts
from regard.tasks.capabilities import Aligns, Scores
from regard.tasks.options import AttributionOptions, PredictOptions, StreamOptions
from regard.tasks.run import Run

P = TypeVar("P", bound=PredictOptions)


class TargetBody(RequestBody):
    """A text and its target."""

    text: str
    target: str


def operations_of(replicas: Replicas[Any]) -> dict[str, Operation]:
    """What a run can be requested to do; nothing for one that predicts nothing."""
    run: Run[Any, Any] = replicas.run
    requests, attends = (
        Requests(replicas),
        any(kind != "gradient" for kind in run.kinds),
    )
    operations: dict[str, Operation] = {}
    if "predict" in run.supports:
        body = body_type("Predict", run.inputs, PredictOptions, run.supports["predict"])
        operations["predict"] = Operation(
            body, at_once(requests.predict), partial(requests.group, PredictOptions)
        )
    if "stream" in run.supports:
        kinds = {"view": (bool, False), "kinds": (AttributionKinds, ())}
        body = body_type(
            "Stream", run.inputs, StreamOptions, run.supports["stream"], **kinds
        )
        operations["stream"] = Operation(
            body, requests.stream, partial(requests.group, StreamOptions), streams=True
        )
    if attends and isinstance(run, Aligns):
        operations["align"] = Operation(
            TargetBody, at_once(partial(align, replicas)), lambda request: None
        )
    if attends and "attribute" in run.supports:
        body = body_type(
            "Attribute", run.inputs, AttributionOptions, run.supports["attribute"]
        )
        operations["attention"] = Operation(body, at_once(requests.attribute))
    return operations


@dataclass(frozen=True)
class Requests:
    """The verbs of a run, called with the bodies of requests by threads with a replica each."""

    replicas: Replicas[Any]

    @property
    def run(self) -> Run[Any, Any]:
        """The run that all replicas are of, for what needs no model."""
        return self.replicas.run

    def example(self, request: RequestBody) -> Any:
        """The example of a request. Raises InputError for values that describe none."""
        return self.run.example({key: getattr(request, key) for key in self.run.inputs})

    @property
    def continues(self) -> bool:
        """Whether predictions are continuations of a prompt."""
        return "tokens" in self.run.supports.get("predict", ())

    def group(self, kind: type[PredictOptions], request: RequestBody) -> Hashable:
        """Requests with the same options are one batch, but what is sampled depends on its batch, so it is alone."""
        options = request_options(request, kind)
        own = kind is PredictOptions and not self.continues and options.beam is None
        return (
            id(request)
            if options.sampling or (own and self.run.samples(options))
            else options
        )

    def predict(self, requests: Sequence[RequestBody]) -> list[dict[str, Any]]:
        """The predictions of a batch: of a text or an image by the run's own search, of a prompt as `stream`."""
        options = request_options(requests[0], PredictOptions)
        options = self.deterministic(options) if self.continues else options
        examples = list(map(self.example, requests))
        with counted_together(logged=False):  # each answer has its own warning
            found = self.replicas.own.predict(examples, options)
        return [
            self.warned(example, each.to_json())
            for example, each in zip(examples, found, strict=True)
        ]

    def warned(self, example: Any, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer with the `warnings` of its example, if there are any."""
        warnings = [*self.run.warnings(example), *filter(None, [self.run.cut(example)])]
        return answer | {"warnings": warnings} if warnings else answer

    def stream(
        self, requests: Sequence[RequestBody], active: Active
    ) -> Iterator[ResponsePart]:
        """The lines of a batch."""
        options = self.deterministic(request_options(requests[0], StreamOptions))
        examples = list(map(self.example, requests))

        def lookups(
            number: int, tokens: Sequence[int], kinds: Sequence[Kind]
        ) -> Sequence[Lookups]:
            return self.lookups(
                examples[number],
                AttributionOptions(target_tokens=tuple(tokens), kinds=tuple(kinds)),
            )

        parts = stream_parts(self.replicas.own.stream(examples, options, active=active))
        for part in LastViews(requests, self.run.kinds, lookups).added(parts):
            yield (
                part._replace(data=self.warned(examples[part.number], part.data))
                if part.last
                else part
            )

    def attribute(self, requests: Sequence[RequestBody]) -> list[dict[str, Any]]:
        """For each request the view of what its target is attributed to; without a target, the prediction and its
        view."""
        return [
            self._attribute(
                self.example(each), request_options(each, AttributionOptions)
            )
            for each in requests
        ]

    def _attribute(self, example: Any, options: AttributionOptions) -> dict[str, Any]:
        if options.target is not None and options.beam is not None:
            raise InputError("beam and target are both given; choose one")
        self.replicas.own.check_size(example, options, LABELS)
        with counted_together(logged=False):
            attribution = self.replicas.own.attribute(example, options)
        view = payload(list(attribution.lookups))
        if options.target is not None or options.target_tokens is not None:
            return view
        return self.warned(example, attribution.prediction.to_json() | {"view": view})

    def lookups(self, example: Any, options: AttributionOptions) -> Sequence[Lookups]:
        """What an example and a target of tokens are attributed to. Raises InputError for too many of them."""
        self.replicas.own.check_size(example, options, LABELS)
        with counted_together(logged=False):
            return self.replicas.own.attribute(example, options).lookups

    def deterministic(self, options: P) -> P:
        """Nothing is sampled unless the request has a temperature, whatever the run's own search."""
        if (
            options.sampling
            or options.beam is not None
            or not self.run.samples(options)
        ):
            return options
        return replace(options, temperature=0.0)


def align(
    replicas: Replicas[Any], requests: Sequence[TargetBody]
) -> list[dict[str, Any]]:
    """The words of both sides, the weights between them and their links; with the log-probabilities of the target where
    the run scores. Raises InputError for too many of them."""
    run: Any = replicas.own
    for each in requests:
        run.check_size(each.text, AttributionOptions(target=each.target), LABELS)
    pairs = [
        Pair(each.text, each.target, f"text {number}")
        for number, each in enumerate(requests, 1)
    ]
    aligned = run.align(pairs)
    scores = run.score(pairs) if isinstance(run, Scores) else [None] * len(pairs)
    return [
        {
            "source": list(each.source),
            "target": list(each.target),
            "weights": each.weights.round(5).tolist(),
            "links": sorted(strongest(each.weights)),
            "log_probabilities": log_probabilities,
        }
        for each, log_probabilities in zip(aligned, scores, strict=True)
    ]
