"""OpenAI's interface: completions, streamed or at once, and embeddings."""

import base64
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, model_validator

from regard.decoding.search import SEEDS
from regard.decoding.streaming import StreamEvent
from regard.serve.requests import HTTPError, RequestBody
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
"""Limit of prompts x n x max_tokens: all choices are computed together."""
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
"""The decoded form of an incomplete UTF-8 sequence."""


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
    echo: Literal[False] | None = None
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
        choices = len(self.prompts)
        tokens = self.max_tokens or DEFAULT_TOKENS
        if choices * tokens > MAX_COMPLETION_TOKENS:
            raise ValueError(
                f"{choices} choices of {tokens} tokens; at most "
                f"{MAX_COMPLETION_TOKENS} tokens together"
            )
        return self


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
    run = replicas.run
    operations: dict[str, Operation] = {}
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
        message = f"the model {name[:80]!r} does not exist; the server has "
        message += ", ".join(models) or "none that completes or embeds texts"
        raise HTTPError(404, message, code="model_not_found")
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
class Choice:
    """A choice that is being written.

    Attributes:
        stops: The texts before which it ends.
        prompt: The number of tokens of its prompt.
        tokens: The number of its tokens.
        sent: The number of characters that were sent.
        reason: Why it ended.
    """

    stops: Sequence[str]
    prompt: int = 0
    tokens: int = 0
    sent: int = 0
    reason: Literal["stop", "length"] | None = None

    def add(self, event: StreamEvent, *, is_full: bool) -> str:
        """Count a token and return the new text.

        Characters that may belong to a stop sequence or are incomplete wait.
        """
        self.prompt = len(event.source.labels) - 1
        self.tokens += 1
        text = event.text
        is_last = event.last or is_full
        positions = [text.find(stop) for stop in self.stops if stop in text]
        if positions:
            text = text[: min(positions)]
        elif not is_last:
            text = text.rstrip(INCOMPLETE)
            held_back = max((len(stop) - 1 for stop in self.stops), default=0)
            text = text[: max(0, len(text) - held_back)]
        if positions or (event.last and event.finished):
            self.reason = "stop"
        elif is_last:
            self.reason = "length"
        new = text[self.sent :]
        self.sent += len(new)
        return new


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
        reply = start_reply(request.model)
        choices = [Choice(request.stops) for _ in request.prompts]
        for index, text in self.iterate_texts(request, choices, active):
            records = [choice_record(index, text, choices[index].reason)]
            is_last = all(choice.reason for choice in choices)
            yield ResponsePart(0, reply | {"choices": records}, is_last)

    def respond(
        self, requests: Sequence[Completion], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the response to one request."""
        (request,) = requests
        choices = [Choice(request.stops) for _ in request.prompts]
        texts = [""] * len(choices)
        for index, text in self.iterate_texts(request, choices, active):
            texts[index] += text
        records = []
        for index, choice in enumerate(choices):
            records.append(choice_record(index, texts[index], choice.reason))
        # every prompt is counted once
        prompts = sum(choice.prompt for choice in choices[:: request.n or 1])
        tokens = sum(choice.tokens for choice in choices)
        usage = {
            "prompt_tokens": prompts,
            "completion_tokens": tokens,
            "total_tokens": prompts + tokens,
        }
        reply = start_reply(request.model)
        yield ResponsePart(0, reply | {"choices": records, "usage": usage})

    def iterate_texts(
        self, request: Completion, choices: Sequence[Choice], active: IsActive
    ) -> Iterator[tuple[int, str]]:
        """Yield the index of a choice and its new text, for each token."""

        def is_wanted(number: int) -> bool:
            return choices[number].reason is None and active(0)

        run = self.replicas.current
        options = self.read_options(request)
        for event in run.stream(request.prompts, options, active=is_wanted):
            choice = choices[event.number]
            if choice.reason is None:
                count = None if self.continues else request.max_tokens
                is_full = choice.tokens + 1 == count
                yield event.number, choice.add(event, is_full=is_full)

    def read_options(self, request: Completion) -> StreamOptions:
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
            options["tokens"] = request.max_tokens or DEFAULT_TOKENS
        return StreamOptions(**options)


def choice_record(index: int, text: str, reason: str | None) -> dict[str, Any]:
    """Return a choice in OpenAI's form."""
    return {"text": text, "index": index, "logprobs": None, "finish_reason": reason}


def start_reply(model: str) -> dict[str, Any]:
    """Return what all chunks of a completion have in common."""
    return {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
    }


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
    tokens = 0
    data = []
    for index, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        has_tokenizer = isinstance(run, HasTokenizer)
        tokens += len(run.tokenizer.encode(text) if has_tokenizer else text.split())
        values = vector.tolist()
        if request.encoding_format == "base64":
            values = base64.b64encode(vector.tobytes()).decode("ascii")
        data.append({"object": "embedding", "index": index, "embedding": values})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}
