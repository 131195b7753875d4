"""What a served run does: operations, each with the requests that it takes and the parts of its response."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from regard.serve.request import RequestBody

Active = Callable[[int], bool]
"""Whether a client still waits for the response to the request of this number in its batch."""


class ResponsePart(NamedTuple):
    """Part of the response to a request of a batch, or the last of it."""

    number: int
    data: dict[str, Any]
    last: bool = True


class StreamForm(NamedTuple):
    """How the parts of a streamed response are sent: each between two marks, and `end` after the last."""

    media_type: str
    before: bytes
    after: bytes
    end: bytes = b""


LINES = StreamForm("application/x-ndjson; charset=utf-8", b"", b"\n")


@dataclass(frozen=True)
class Operation:
    """How requests of one kind are answered.

    request: the type of their bodies.
    respond: the parts of the responses to a batch of requests of one group.
    group: requests for which it is equal may be one batch; by default each is alone.
    streams: the parts of a response are sent as they come, in a `form`.
    """

    request: type[RequestBody]
    respond: Callable[[Sequence[Any], Active], Iterator[ResponsePart]]
    group: Callable[[Any], Hashable] = id
    streams: bool = False
    form: StreamForm = LINES


def at_once(
    responses: Callable[[Sequence[Any]], Sequence[dict[str, Any]]],
) -> Callable[..., Iterator[ResponsePart]]:
    """The `respond` of an operation whose responses have one part each and come together."""

    def respond(requests: Sequence[Any], active: Active) -> Iterator[ResponsePart]:
        yield from (
            ResponsePart(number, data)
            for number, data in enumerate(responses(requests))
        )

    return respond


@dataclass(frozen=True)
class ServedRun:
    """A run by its name, what the page has to know `about` it, its operations by theirs, and those of OpenAI's
    interface."""

    name: str
    about: Mapping[str, Any]
    operations: Mapping[str, Operation]
    openai: Mapping[str, Operation] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"name": self.name, **self.about, "operations": list(self.operations)}
