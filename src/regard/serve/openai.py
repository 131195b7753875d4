"""The operations of OpenAI's interface: completions, streamed or whole, and embeddings."""

import base64
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from regard.decoding.search import SEEDS
from regard.decoding.streaming import StreamEvent
from regard.serve.operation import Active, Operation, ResponsePart, StreamForm, at_once
from regard.serve.replica import Replicas
from regard.serve.request import RequestBody
from regard.serve.stop import Cut
from regard.tasks.capabilities import EmbedsTexts
from regard.tasks.options import StreamOptions
from regard.text import Tokenizer

Texts = str | Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
Unsupported = Annotated[float, Field(ge=0, le=0)] | None
EVENTS = StreamForm(
    "text/event-stream; charset=utf-8", b"data: ", b"\n\n", b"data: [DONE]\n\n"
)


class StreamSettings(RequestBody):
    """`stream_options` of a completion."""

    include_usage: bool = False


class Completion(RequestBody):
    """The body of `/v1/completions`. Options without effect here are accepted with the value that has none."""

    model: str
    prompt: Texts
    max_tokens: Annotated[int, Field(ge=1, le=2000)] | None = 16
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
        return tuple(each for each in stops if each)


class Embeddings(RequestBody):
    """The body of `/v1/embeddings`."""

    model: str
    input: str | Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: None = None
    user: str | None = None


@runtime_checkable
class Tokenizes(Protocol):
    """A run with one tokenizer."""

    tokenizer: Tokenizer


def openai_operations(replicas: Replicas[Any]) -> dict[str, Operation]:
    """The operations of OpenAI's interface that a run has, by the ends of their paths; `stream` is a streamed
    completion."""
    run, found = replicas.run, dict[str, Operation]()
    texts = run.inputs == {"text": str}
    if "stream" in run.supports and texts:
        completions = Completions(replicas, "tokens" in run.supports["stream"])
        found["completions"] = Operation(Completion, completions.whole)
        found["stream"] = Operation(
            Completion, completions.streamed, streams=True, form=EVENTS
        )
    if isinstance(run, EmbedsTexts) and texts:
        found["embeddings"] = Operation(
            Embeddings, at_once(lambda requests: [embed(replicas.own, *requests)])
        )
    return found


@dataclass
class Choice:
    """A choice on its way: the text that has been sent of it, and its counts."""

    cut: Cut
    prompt: int = 0
    tokens: int = 0
    reason: Literal["stop", "length"] | None = None


@dataclass(frozen=True)
class Completions:
    """Completions of prompts by the streamed outputs of a run; `continues` if these are continuations."""

    replicas: Replicas[Any]
    continues: bool

    def streamed(
        self, requests: Sequence[Completion], active: Active
    ) -> Iterator[ResponsePart]:
        """The chunks of one request."""
        (request,) = requests
        reply, choices = Reply(request.model), choices_of(request)
        for index, text in enumerate(request.prompts if request.echo else ()):
            yield ResponsePart(0, reply.chunk(index, text, None), last=False)
        settings = request.stream_options or StreamSettings()
        for left, (index, text, reason) in self._pieces(request, choices, active):
            last = not left and not settings.include_usage
            yield ResponsePart(0, reply.chunk(index, text, reason), last)
        if settings.include_usage:
            yield ResponsePart(0, reply.json([]) | {"usage": usage(request, choices)})

    def whole(
        self, requests: Sequence[Completion], active: Active
    ) -> Iterator[ResponsePart]:
        """The response to one request."""
        (request,) = requests
        choices = choices_of(request)
        texts = list(request.prompts) if request.echo else [""] * len(choices)
        for _, (index, text, _) in self._pieces(request, choices, active):
            texts[index] += text
        found = [
            {
                "text": text,
                "index": index,
                "logprobs": None,
                "finish_reason": choice.reason,
            }
            for index, (text, choice) in enumerate(zip(texts, choices, strict=True))
        ]
        yield ResponsePart(
            0, Reply(request.model).json(found) | {"usage": usage(request, choices)}
        )

    def _pieces(
        self, request: Completion, choices: Sequence[Choice], active: Active
    ) -> Iterator[tuple[int, tuple[int, str, str | None]]]:
        """How many choices are left, and of one its number, more of its text, and the reason of its end."""

        def continues(number: int) -> bool:
            return choices[number].reason is None and active(0)

        left = len(choices)
        for event in self.replicas.own.stream(
            request.prompts, self._options(request), active=continues
        ):
            choice = choices[event.number]
            if choice.reason is None:
                text = self._add(choice, event, request)
                left -= choice.reason is not None
                yield left, (event.number, text, choice.reason)

    def _add(self, choice: Choice, event: StreamEvent, request: Completion) -> str:
        """Count a token -> the text that it adds."""
        choice.prompt, choice.tokens = len(event.source.labels) - 1, choice.tokens + 1
        full = not self.continues and choice.tokens == request.max_tokens
        text = choice.cut.add(event.text, last=event.last or full)
        if choice.cut.stopped or (event.last and event.finished):
            choice.reason = "stop"
        elif event.last or full:
            choice.reason = "length"
        return text

    def _options(self, request: Completion) -> StreamOptions:
        """Sampled by default where outputs are continuations, as OpenAI's; otherwise greedy."""
        temperature = request.temperature
        if temperature is None:
            temperature = 1.0 if self.continues else 0.0
        chosen: dict[str, Any] = {
            "temperature": temperature,
            "top_p": request.top_p or 1.0,
        }
        if temperature:
            chosen["seed"] = (
                secrets.randbelow(SEEDS) if request.seed is None else request.seed
            )
        if self.continues:
            chosen |= {"tokens": request.max_tokens or 16, "beyond": "stop"}
        return StreamOptions(**chosen)


def choices_of(request: Completion) -> list[Choice]:
    """The choices of a request, without a text."""
    return [Choice(Cut(request.stops)) for _ in request.prompts]


def usage(request: Completion, choices: Sequence[Choice]) -> dict[str, int]:
    """The tokens of the prompts, once each, and of the choices."""
    read, written = (
        sum(each.prompt for each in choices[:: request.n or 1]),
        sum(each.tokens for each in choices),
    )
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


@dataclass(frozen=True)
class Reply:
    """What all chunks of a completion have."""

    model: str
    id: str = field(default_factory=lambda: f"cmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    def json(self, choices: Sequence[Any]) -> dict[str, Any]:
        """Plain values for JSON."""
        about = {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
        }
        return about | {"choices": list(choices)}

    def chunk(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        """More of the text of one choice."""
        return self.json(
            [{"text": text, "index": index, "logprobs": None, "finish_reason": reason}]
        )


def embed(run: Any, request: Embeddings) -> dict[str, Any]:
    """The vectors of the texts of a request. Raises InputError for a text that the run would take for a file's name."""
    texts = [request.input] if isinstance(request.input, str) else list(request.input)
    texts = [run.example({"text": each}) for each in texts]
    vectors = run.embed(texts).float().numpy().astype("<f4")
    if not np.isfinite(vectors).all():
        raise FloatingPointError(
            "the answer is refused: a vector is not finite; the run's weights may be damaged"
        )
    tokens = sum(
        len(run.tokenizer.encode(each) if isinstance(run, Tokenizes) else each.split())
        for each in texts
    )
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": _vector(each, request.encoding_format),
        }
        for index, each in enumerate(vectors)
    ]
    count = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": count}


def _vector(vector: np.ndarray, form: str | None) -> str | list[float]:
    return (
        base64.b64encode(vector.tobytes()).decode("ascii")
        if form == "base64"
        else vector.tolist()
    )
