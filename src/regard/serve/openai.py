"""OpenAI's interface: completions, streamed or at once, and embeddings."""

import base64
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    runtime_checkable,
)

import numpy as np
from pydantic import Field, model_validator

from regard.decoding.search import SEEDS
from regard.decoding.streaming import StreamEvent
from regard.serve.requests import BEAM_TEXTS, HTTPError, Limits, RequestBody
from regard.serve.worker import (
    IsActive,
    Operation,
    Replicas,
    ResponsePart,
    ServedRun,
    StreamForm,
    respond_at_once,
)
from regard.tasks.capabilities import EmbedsTexts
from regard.tasks.options import StreamOptions
from regard.text import Tokenizer

Texts = str | Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
Unsupported = Annotated[float, Field(ge=0, le=0)] | None
EVENTS = StreamForm(
    "text/event-stream; charset=utf-8", b"data: ", b"\n\n", b"data: [DONE]\n\n"
)
DEFAULT_TOKENS = 16
MAX_COMPLETION_TOKENS = 1 << 14
"""Limit of prompts x n x best_of x max_tokens: all choices are computed together."""
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
"""The decoded form of an incomplete UTF-8 sequence."""


class StreamSettings(RequestBody):
    """`stream_options` of a completion."""

    include_usage: bool = False


class Completion(RequestBody):
    """The body of `/v1/completions`.

    Options without effect here are accepted with the value that has none.
    """

    model: str
    prompt: Texts
    max_tokens: Annotated[int, Field(ge=1, le=2000)] | None = DEFAULT_TOKENS
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = 1.0
    n: Annotated[int, Field(ge=1, le=16)] | None = 1
    stop: str | Annotated[tuple[str, ...], Field(max_length=4)] | None = None
    seed: Annotated[int, Field(ge=0, lt=SEEDS)] | None = None
    stream: bool | None = False
    stream_options: StreamSettings | None = None
    echo: bool | None = False
    best_of: Literal[1] | None = None
    frequency_penalty: Unsupported = None
    presence_penalty: Unsupported = None
    logprobs: None = None
    suffix: None = None
    logit_bias: Annotated[dict[str, int], Field(max_length=0)] | None = None
    user: str | None = None

    @property
    def prompts(self) -> tuple[str, ...]:
        """The prompt of each choice."""
        texts = (self.prompt,) if isinstance(self.prompt, str) else self.prompt
        return tuple(text for text in texts for _ in range(self.n or 1))

    @property
    def stops(self) -> tuple[str, ...]:
        """The texts before which a choice ends."""
        stops = (self.stop,) if isinstance(self.stop, str) else self.stop or ()
        return tuple(text for text in stops if text)

    @model_validator(mode="after")
    def check_total(self) -> "Completion":
        """Bound the product of the counts."""
        choices, tokens = len(self.prompts), self.max_tokens or DEFAULT_TOKENS
        if choices * tokens > MAX_COMPLETION_TOKENS:
            raise ValueError(
                f"{choices} choices of {tokens} tokens; at most "
                f"{MAX_COMPLETION_TOKENS} tokens together"
            )
        return self

    def check(self, limits: Limits) -> None:
        """Bound the prompts, which are read once for every choice.

        Raises:
            HTTPError: 422, they are too long.
        """
        characters, limit = sum(map(len, self.prompts)), BEAM_TEXTS * limits.text
        if len(self.prompts) > 1 and characters > limit:
            raise HTTPError(
                422,
                f"{len(self.prompts)} choices read {characters} characters; at most "
                f"{limit} together: send fewer prompts or a smaller n",
            )


class Embeddings(RequestBody):
    """The body of `/v1/embeddings`."""

    model: str
    input: str | Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: None = None
    user: str | None = None


BODIES: Mapping[str, type[Completion | Embeddings]] = {
    "completions": Completion,
    "embeddings": Embeddings,
}
"""The bodies by the ends of their paths."""


@runtime_checkable
class HasTokenizer(Protocol):
    """A run with one tokenizer."""

    tokenizer: Tokenizer


def build_openai_operations(replicas: Replicas[Any]) -> dict[str, Operation]:
    """Build the operations of OpenAI's interface that a run supports.

    They are named by the ends of their paths; `stream` is a streamed completion.
    """
    run, operations = replicas.run, dict[str, Operation]()
    if run.inputs != {"text": str}:
        return operations
    if "stream" in run.supports:
        completions = Completions(replicas, "tokens" in run.supports["stream"])
        operations["completions"] = Operation(Completion, completions.respond)
        operations["stream"] = Operation(
            Completion, completions.stream, streams=True, form=EVENTS
        )
    if isinstance(run, EmbedsTexts):
        respond = respond_at_once(lambda requests: [embed(replicas.current, *requests)])
        operations["embeddings"] = Operation(Embeddings, respond)
    return operations


def find_model(runs: Mapping[str, ServedRun], name: str) -> ServedRun:
    """Return the run of a name.

    Raises:
        HTTPError: There is none with operations of this interface.
    """
    models = {key: run for key, run in runs.items() if run.openai}
    if name not in models:
        choices = f"choose one of {', '.join(models)}"
        if not models:
            choices = "no run of this server completes or embeds texts"
        raise HTTPError(
            404,
            f"the model {name[:80]!r} does not exist; {choices}",
            code="model_not_found",
        )
    return models[name]


def find_operation(run: ServedRun, kind: str, request: RequestBody) -> str:
    """Return the name of the operation that answers a request.

    Raises:
        HTTPError: The run has no such operation.
    """
    if kind not in run.openai:
        kinds = ", ".join(name for name in run.openai if name in BODIES)
        raise HTTPError(400, f"the model {run.name!r} has no {kind}; it has {kinds}")
    streams = isinstance(request, Completion) and request.stream
    return "stream" if streams else kind


@dataclass
class StopFilter:
    """Passes the new part of a growing text, up to the first stop sequence.

    Characters that may belong to a stop sequence or are incomplete wait.
    """

    stops: Sequence[str]
    sent: int = 0
    stopped: bool = False

    def add(self, text: str, *, last: bool) -> str:
        """Take the complete text so far and return what is new of it."""
        positions = [text.find(stop) for stop in self.stops if stop in text]
        if positions:
            self.stopped, text = True, text[: min(positions)]
        elif not last:
            text = text.rstrip(INCOMPLETE)
            held_back = max((len(stop) - 1 for stop in self.stops), default=0)
            text = text[: max(0, len(text) - held_back)]
        new = text[self.sent :]
        self.sent = max(self.sent, len(text))
        return new


@dataclass
class Choice:
    """A choice that is being written, and its counts of tokens."""

    filter: StopFilter
    prompt: int = 0
    tokens: int = 0
    reason: Literal["stop", "length"] | None = None


@dataclass(frozen=True)
class Piece:
    """More text of the choice `index`; `reason` says why it ended."""

    index: int
    text: str
    reason: str | None
    is_last: bool


@dataclass(frozen=True)
class Completions:
    """Completions by the streamed outputs of a run.

    Attributes:
        replicas: The run.
        continues: Whether its outputs are continuations.
    """

    replicas: Replicas[Any]
    continues: bool

    def stream(
        self, requests: Sequence[Completion], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the chunks of one request."""
        (request,) = requests
        reply, choices = Reply(request.model), start_choices(request)
        if request.echo:
            for index, text in enumerate(request.prompts):
                yield ResponsePart(0, reply.chunk(index, text, None), last=False)
        settings = request.stream_options or StreamSettings()
        for piece in self._pieces(request, choices, active):
            last = piece.is_last and not settings.include_usage
            chunk = reply.chunk(piece.index, piece.text, piece.reason)
            yield ResponsePart(0, chunk, last)
        if settings.include_usage:
            usage = count_usage(request, choices)
            yield ResponsePart(0, reply.to_json([]) | {"usage": usage})

    def respond(
        self, requests: Sequence[Completion], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the response to one request."""
        (request,) = requests
        choices = start_choices(request)
        texts = list(request.prompts) if request.echo else [""] * len(choices)
        for piece in self._pieces(request, choices, active):
            texts[piece.index] += piece.text
        records = [
            choice_record(index, text, choice.reason)
            for index, (text, choice) in enumerate(zip(texts, choices, strict=True))
        ]
        usage = count_usage(request, choices)
        response = Reply(request.model).to_json(records) | {"usage": usage}
        yield ResponsePart(0, response)

    def _pieces(
        self, request: Completion, choices: Sequence[Choice], active: IsActive
    ) -> Iterator[Piece]:
        """Yield the texts of the choices as they grow."""

        def is_wanted(number: int) -> bool:
            return choices[number].reason is None and active(0)

        unfinished, options = len(choices), self._options(request)
        run = self.replicas.current
        for event in run.stream(request.prompts, options, active=is_wanted):
            choice = choices[event.number]
            if choice.reason is None:
                text = self._add(choice, event, request)
                unfinished -= choice.reason is not None
                yield Piece(event.number, text, choice.reason, not unfinished)

    def _add(self, choice: Choice, event: StreamEvent, request: Completion) -> str:
        """Count a token and return the text that it adds."""
        choice.prompt = len(event.source.labels) - 1
        choice.tokens += 1
        is_full = not self.continues and choice.tokens == request.max_tokens
        text = choice.filter.add(event.text, last=event.last or is_full)
        if choice.filter.stopped or (event.last and event.finished):
            choice.reason = "stop"
        elif event.last or is_full:
            choice.reason = "length"
        return text

    def _options(self, request: Completion) -> StreamOptions:
        """Return the options: continuations are sampled by default, as OpenAI's."""
        temperature = request.temperature
        if temperature is None:
            temperature = 1.0 if self.continues else 0.0
        options: dict[str, Any] = {
            "temperature": temperature,
            "top_p": request.top_p or 1.0,
        }
        if temperature:
            seed = request.seed
            options["seed"] = secrets.randbelow(SEEDS) if seed is None else seed
        if self.continues:
            tokens = request.max_tokens or DEFAULT_TOKENS
            options |= {"tokens": tokens, "beyond": "stop"}
        return StreamOptions(**options)


def start_choices(request: Completion) -> list[Choice]:
    """Return the choices of a request, without text."""
    return [Choice(StopFilter(request.stops)) for _ in request.prompts]


def count_usage(request: Completion, choices: Sequence[Choice]) -> dict[str, int]:
    """Count the tokens of the prompts, once each, and of the choices."""
    prompts = sum(choice.prompt for choice in choices[:: request.n or 1])
    completions = sum(choice.tokens for choice in choices)
    return {
        "prompt_tokens": prompts,
        "completion_tokens": completions,
        "total_tokens": prompts + completions,
    }


def choice_record(index: int, text: str, reason: str | None) -> dict[str, Any]:
    """Return a choice in OpenAI's form."""
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason}


@dataclass(frozen=True)
class Reply:
    """What all chunks of a completion have in common."""

    model: str
    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def to_json(self, choices: Sequence[Any]) -> dict[str, Any]:
        """Return a chunk with these choices."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
        }

    def chunk(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        """Return a chunk with more text of one choice."""
        return self.to_json([choice_record(index, text, reason)])


def embed(run: Any, request: Embeddings) -> dict[str, Any]:
    """Embed the texts of a request.

    Raises:
        InputError: The run would take a text for a file name.
        FloatingPointError: A vector is not finite.
    """
    texts = [request.input] if isinstance(request.input, str) else list(request.input)
    texts = [run.example({"text": text}) for text in texts]
    vectors = run.embed(texts).float().numpy().astype("<f4")
    if not np.isfinite(vectors).all():
        raise FloatingPointError(
            "a vector is not finite, so there is no answer; the run's weights may be "
            "damaged"
        )
    tokens, data = 0, []
    for index, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        has_tokenizer = isinstance(run, HasTokenizer)
        tokens += len(run.tokenizer.encode(text) if has_tokenizer else text.split())
        values = vector.tolist()
        if request.encoding_format == "base64":
            values = base64.b64encode(vector.tobytes()).decode("ascii")
        data.append({"object": "embedding", "index": index, "embedding": values})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}
