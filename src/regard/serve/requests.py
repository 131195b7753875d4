"""Bodies of requests, the limits of a server, and errors as HTTP responses."""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from starlette.responses import Response

from regard.attribution.kinds import Kind
from regard.images import count_pixels
from regard.tasks.options import Options, list_options

Json = dict[str, Any]
B = TypeVar("B", bound="RequestBody")
T = TypeVar("T", bound=Options)
OPENAI = "/v1/"
"""The prefix of the paths of OpenAI's interface."""
RETRY_SECONDS = 2
"""Seconds after which a client may try again."""
REPORTED_ERRORS = 3
"""Errors of one request that its response names."""
COPIED_TEXTS = 10
"""Limit of copies x characters, in longest texts: a beam, and each of OpenAI's choices,
copies the whole source."""
AttributionKinds = Annotated[tuple[Kind, ...], Field(max_length=6)]
"""The kinds of maps in a view; the first is shown first."""


@dataclass(frozen=True)
class ServerLimits:
    """What a server accepts.

    Attributes:
        body: Bytes of one request.
        bodies: Bytes of all bodies that are being received.
        text: Characters of one text.
        values: Texts, numbers and files of one request.
        pixels: Pixels of all images of one request, known before decoding.
        requests: Requests that wait or are being answered.
        workers: Threads that use the models.
        batch: Requests that are answered together.
        keep_alive_seconds: Seconds that an idle connection stays open.
        body_seconds: Seconds in which a body must arrive.
        answer_seconds: Seconds in which an answer must be complete.
        connections: Connections at a time.
    """

    body: int = 8 << 20
    bodies: int = 64 << 20
    text: int = 5000
    values: int = 4096
    pixels: int = 1 << 22
    requests: int = 32
    workers: int = 1
    batch: int = 16
    keep_alive_seconds: int = 20
    body_seconds: float = 20.0
    answer_seconds: float = 120.0
    connections: int = 512


Indices = (
    Annotated[
        tuple[Annotated[int, Field(ge=0, lt=1 << 16)], ...], Field(max_length=512)
    ]
    | None
)


class RequestBody(BaseModel):
    """A JSON body; keys that it does not declare are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, val_json_bytes="base64"
    )


class CutRequest(RequestBody):
    """Edges that the model may not attend along; without a list all.

    Attributes:
        queries: Positions in the output.
        keys: Positions in the source.
        maps: Numbers of heads, layer x heads + head.
    """

    queries: Indices = None
    keys: Indices = None
    maps: Indices = None


CutRequests = Annotated[tuple[CutRequest, ...], Field(max_length=64)]


class HTTPError(Exception):
    """A request without an answer: a status and one line that says why.

    Args:
        status: The status of the response.
        message: What is wrong, in one line.
        headers: Further headers.
        code: OpenAI's name of the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.code = code

    def response(self, path: str = "") -> Response:
        """Return the response, in OpenAI's form under OpenAI's paths."""
        if not path.startswith(OPENAI):
            return json_response({"error": str(self)}, self.status, self.headers)
        status = 400 if self.status == 422 else self.status
        body = openai_error(self.status, str(self), self.code)
        return json_response(body, status, self.headers)


def busy(message: str) -> HTTPError:
    """Return the error of a server that has no room for a request now."""
    return HTTPError(503, message, {"retry-after": str(RETRY_SECONDS)})


def describe_fault(error: BaseException) -> HTTPError:
    """Return the error of a fault of the server, whose details only its log has."""
    name = type(error).__name__
    return HTTPError(500, f"unexpected {name}; see the log of the server")


def openai_error(status: int, message: str, code: str | None = None) -> Json:
    """Return the body of an error in OpenAI's form."""
    default = "invalid_request_error" if status < 500 else "server_error"
    kind = "authentication_error" if status == 401 else default
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a JSON body."""
    return Response(encode(value), status, headers, "application/json")


def encode(value: Any) -> bytes:
    """Encode a value as compact JSON.

    Lone surrogates become escapes; infinite numbers, such as the score of an
    impossible text, become null.

    Raises:
        FloatingPointError: A number is NaN.
    """
    finite = replace_infinities(value)
    text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def replace_infinities(value: Any) -> Any:
    """Replace infinite numbers by None, at any depth; refuse NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise FloatingPointError(
                "the answer has NaN, so there is none; the run's weights may be damaged"
            )
        return None
    if isinstance(value, dict):
        return {key: replace_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(replace_infinities, value))
    return value


def build_body_type(
    inputs: Mapping[str, Any],
    options: type[Options],
    supported: Collection[str],
    **extra: Any,
) -> type[RequestBody]:
    """Build the type of a body from a run's inputs and the options of a verb.

    Args:
        inputs: The inputs of an example, with their types.
        options: The options of the verb.
        supported: The names of the options that the run supports.
        extra: Further keys, each a type and a default.
    """
    keys: Json = {}
    for key, hint in inputs.items():
        keys[key] = (hint, None if NoneType in get_args(hint) else ...)
    hints = get_type_hints(options)
    for name, option in list_options(options).items():
        if name not in supported:
            continue
        bounds = Field(max_length=option.served)  # of a sequence
        if any(
            limit is not None for limit in (option.least, option.above, option.most)
        ):
            limits = [item for item in (option.most, option.served) if item is not None]
            limit = min(limits, default=None)
            bounds = Field(ge=option.least, gt=option.above, le=limit)
        keys[name] = (Annotated[hints[name], bounds], getattr(options, name))
    return create_model(options.__name__, __base__=RequestBody, **keys, **extra)


def read_options(request: RequestBody, kind: type[T]) -> T:
    """Return the options of a request."""
    values = {}
    for name in list_options(kind).keys() & type(request).model_fields.keys():
        value = getattr(request, name)
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def parse(kind: type[B], body: bytes, limits: ServerLimits) -> B:
    """Parse and check a body.

    Raises:
        HTTPError: 400 for invalid JSON, 422 for keys or values that are not accepted.
    """
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_input=False)
        is_json = all(item["type"] != "json_invalid" for item in errors)
        lines = []
        for item in errors[:REPORTED_ERRORS]:
            location = ".".join(map(str, item["loc"])) or "body"
            lines.append(f"{location}: {item['msg']}")
        message = " ".join("; ".join(lines).split())
        raise HTTPError(422 if is_json else 400, message) from error
    check_values(dict(request), limits)
    return request


def check_values(request: Mapping[str, Any], limits: ServerLimits) -> None:
    """Check the size of a request.

    Raises:
        HTTPError: 422 for too many values, or texts or images that are too large.
    """
    characters = pixels = 0
    for count, (name, value) in enumerate(_iterate_values(request, ""), 1):
        if count > limits.values:
            raise HTTPError(422, f"more than {limits.values} values in one request")
        if isinstance(value, str):
            characters += len(value)
            if len(value) > limits.text:
                raise HTTPError(
                    422,
                    f"{name}: {len(value)} characters; this server accepts "
                    f"{limits.text}, see --max-text",
                )
        elif isinstance(value, bytes):
            pixels += count_pixels(value)
    if pixels > limits.pixels:
        raise HTTPError(
            422,
            f"images of {pixels} pixels; this server accepts {limits.pixels} in one "
            "request, see --max-pixels",
        )
    copies = request.get("beam") or request.get("n") or 1
    limit = limits.text * COPIED_TEXTS
    if (copies > 1 or "prompt" in request) and copies * characters > limit:
        raise HTTPError(
            422,
            f"{characters} characters are read {copies} times; this server accepts "
            f"{limit} together. Choose a smaller beam or n, or fewer texts.",
        )


def _iterate_values(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every single value with its location; keys of objects are values too."""
    if isinstance(value, BaseModel):
        value = vars(value)  # a field may be called keys
    if isinstance(value, Mapping):
        for key, item in value.items():
            if name:
                yield f"{name}.name", key
            yield from _iterate_values(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _iterate_values(item, f"{name}.{index}")
    else:
        yield name, value
