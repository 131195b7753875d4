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
from regard.serve.requests import HTTPError, Json, RequestBody
from regard.serve.worker import (
    IsActive,
    Operation,
    Operations,
    Replicas,
    ResponsePart,
    ServedRun,
    StreamForm,
    respond_at_once,
)
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


def as_tuple(texts: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return one or several texts as a tuple."""
    return (texts,) if isinstance(texts, str) else texts


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
    def prompts(self) -> list[str]:
        """The prompt of each choice."""
        prompts = as_tuple(self.prompt)
        return [text for text in prompts for _ in range(self.n or 1)]

    @property
    def stops(self) -> list[str]:
        """The texts before which a choice ends."""
        return list(filter(None, as_tuple(self.stop or ())))

    @model_validator(mode="after")
    def check_total(self) -> "Completion":
        """Bound the product of the counts."""
        choices = len(self.prompts)
        tokens = self.max_tokens or DEFAULT_TOKENS
        if choices * tokens > MAX_COMPLETION_TOKENS:
            limit = f"at most {MAX_COMPLETION_TOKENS} tokens together"
            raise ValueError(f"{choices} choices of {tokens} tokens; {limit}")
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


def build_openai_operations(replicas: Replicas[Any]) -> Operations:
    """Build the operations of OpenAI's interface that a run supports.

    They are named by the ends of their paths; `stream` is a streamed completion.
    """
    run = replicas.run
    operations: Operations = {}
    if run.inputs != {"text": str}:
        return operations
    if "stream" in run.supports:
        completions = Completions(replicas, "tokens" in run.supports["stream"])
        operations["completions"] = Operation(Completion, completions.respond)
        operations["stream"] = Operation(
            Completion, completions.stream, streams=True, form=EVENTS
        )
    if getattr(run, "embed", None) is not None:
        respond = respond_at_once(lambda requests: [embed(replicas.current, *requests)])
        operations["embeddings"] = Operation(Embeddings, respond)
    return operations


def find_operation(
    runs: Mapping[str, ServedRun], kind: str, request: Completion | Embeddings
) -> tuple[ServedRun, str]:
    """Return the run that a request names, and the operation that answers it.

    Raises:
        HTTPError: There is no such run, or it has no such operation.
    """
    models = {name: run for name, run in runs.items() if run.openai}
    if request.model not in models:
        message = f"the model {request.model[:80]!r} does not exist; the server has "
        message += ", ".join(models) or "none that completes or embeds texts"
        raise HTTPError(404, message, code="model_not_found")
    run = models[request.model]
    if kind not in run.openai:
        kinds = ", ".join(name for name in run.openai if name in BODIES)
        raise HTTPError(400, f"the model {run.name!r} has no {kind}; it has {kinds}")
    streams = isinstance(request, Completion) and request.stream
    return run, "stream" if streams else kind


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
        end = min(
            (text.find(stop) for stop in self.stops if stop in text), default=None
        )
        if end is not None:
            text = text[:end]
        elif not is_last:
            text = text.rstrip(INCOMPLETE)
            held_back = max((len(stop) - 1 for stop in self.stops), default=0)
            text = text[: max(0, len(text) - held_back)]
        if end is not None or (event.last and event.finished):
            self.reason = "stop"
        elif is_last:
            self.reason = "length"
        new = text[self.sent :]
        self.sent += len(new)
        return new

    def to_json(self, index: int, text: str) -> Json:
        """Return the choice, or new text of it, in OpenAI's form."""
        return {
            "text": text,
            "index": index,
            "logprobs": None,
            "finish_reason": self.reason,
        }


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
            record = choices[index].to_json(index, text)
            is_last = all(choice.reason for choice in choices)
            yield ResponsePart(0, reply | {"choices": [record]}, is_last)

    def respond(
        self, requests: Sequence[Completion], active: IsActive
    ) -> Iterator[ResponsePart]:
        """Yield the response to one request."""
        (request,) = requests
        choices = [Choice(request.stops) for _ in request.prompts]
        texts = [""] * len(choices)
        for index, text in self.iterate_texts(request, choices, active):
            texts[index] += text
        pairs = zip(choices, texts, strict=True)
        records = [
            item.to_json(index, text) for index, (item, text) in enumerate(pairs)
        ]
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
        seed, tokens = None, None
        if temperature:
            seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
        if self.continues:
            tokens = request.max_tokens or DEFAULT_TOKENS
        top_p = request.top_p or 1.0
        return StreamOptions(
            temperature=temperature, top_p=top_p, seed=seed, tokens=tokens
        )


def start_reply(model: str) -> Json:
    """Return what all chunks of a completion have in common."""
    return {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
    }


def embed(run: Any, request: Embeddings) -> Json:
    """Embed the texts of a request.

    Raises:
        InputError: The run would take a text for a file name.
        FloatingPointError: A vector is not finite.
    """
    texts = [run.example({"text": text}) for text in as_tuple(request.input)]
    vectors = run.embed(texts).float().numpy().astype("<f4")
    if not np.isfinite(vectors).all():
        raise FloatingPointError(
            "a vector is not finite, so there is no answer; the run's weights may be "
            "damaged"
        )
    has_tokenizer = isinstance(run, HasTokenizer)
    split = run.tokenizer.encode if has_tokenizer else str.split
    tokens = sum(len(split(text)) for text in texts)
    data = []
    for index, vector in enumerate(vectors):
        values = vector.tolist()
        if request.encoding_format == "base64":
            values = base64.b64encode(vector.tobytes()).decode("ascii")
        data.append({"object": "embedding", "index": index, "embedding": values})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage}
