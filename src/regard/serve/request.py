"""Bodies of requests: their keys and types, checked before anything is done."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)

from regard.attribution.kinds import Kind
from regard.decoding.search import SEEDS
from regard.errors import InputError
from regard.images import pixels_of
from regard.serve.http_errors import HTTPError
from regard.tasks.options import Options

R = TypeVar("R", bound="RequestBody")
Chosen = TypeVar("Chosen", bound=Options)
REPORTED = 3
"""Faults of one request that its response names."""
BEAM_TEXTS = 10
"""The beam times the characters of all texts is at most this many times the longest text: a beam keeps its hypotheses
of the whole source side by side."""
BOUNDS: Mapping[str, Any] = {
    "beam": Field(ge=1, le=64),
    "n_best": Field(ge=1, le=64),
    "temperature": Field(ge=0, le=100),
    "top_k": Field(ge=0),
    "top_p": Field(gt=0, le=1),
    "seed": Field(ge=0, lt=SEEDS),
    "tokens": Field(ge=1, le=2000),
    "candidates": Field(ge=0, le=20),
    "kinds": Field(min_length=1, max_length=4),
    "phrases": Field(max_length=16),
    "banned": Field(max_length=16),
    "min_length": Field(ge=0, le=2000),
    "repetition_penalty": Field(gt=0, le=100),
    "no_repeat": Field(ge=0, le=2000),
    "length_penalty": Field(ge=0, le=100),
    "maps": Field(max_length=1024),
    "prefix_tokens": Field(max_length=2000),
    "target_tokens": Field(max_length=2000),
}
"""What a server accepts of an option, by its name."""
DEFAULTS: Mapping[str, Any] = {"beyond": "stop"}
"""Defaults of a server where the library's is to raise: a text that outgrows the context of its model ends."""
AttributionKinds = Annotated[tuple[Kind, ...], BOUNDS["kinds"]]
"""The kinds of a view: the maps of the first, those of the others beside them."""


@dataclass(frozen=True)
class Limits:
    """What a server accepts.

    body: bytes of a request.
    bodies: bytes that all bodies on their way may hold; the first of each are not counted (`serve.connection.SMALL`).
    text: characters of one text.
    values: texts, numbers and files of a request.
    pixels: of all images of a request; their headers are read before any is decoded.
    inside: requests that wait or are answered.
    per_client: how many of them one client may have.
    workers: threads that use the models.
    together: requests that are answered as one batch.
    head_seconds: how long a connection may be without the head of a request.
    body_seconds: how long a body may take to come.
    answer_seconds: how long an answer may take from then on.
    connections: how many at a time.
    """

    body: int = 8 << 20
    bodies: int = 64 << 20
    text: int = 5000
    values: int = 4096
    pixels: int = 1 << 22
    inside: int = 32
    per_client: int = 24
    workers: int = 1
    together: int = 16
    head_seconds: float = 20.0
    body_seconds: float = 20.0
    answer_seconds: float = 120.0
    connections: int = 512


class RequestBody(BaseModel):
    """A body in JSON: its keys and their types; no other key is accepted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def body_type(
    name: str,
    inputs: Mapping[str, Any],
    options: type[Options],
    supported: frozenset[str],
    **more: Any,
) -> type[RequestBody]:
    """The body with the keys of an example, the options of a verb that a run supports, and `more`, each a type and a
    default."""
    hints = get_type_hints(options)
    keys = {
        key: (_json_type(kind), None if _optional(kind) else ...)
        for key, kind in inputs.items()
    }
    chosen = {
        each.name: (
            _bounded(each.name, hints[each.name]),
            DEFAULTS.get(each.name, each.default),
        )
        for each in fields(options)
        if each.name in supported
    }
    return create_model(name, __base__=RequestBody, **keys, **chosen, **more)


def request_options(request: RequestBody, kind: type[Chosen]) -> Chosen:
    """The options that a request chooses."""
    names = {each.name for each in fields(kind)} & type(request).model_fields.keys()
    return kind(**{name: getattr(request, name) for name in names})


def parse(kind: type[R], body: bytes, limits: Limits) -> R:
    """Raises HTTPError: 400 for what is no JSON, 422 for other keys or values than the interface has."""
    try:
        request = kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(
            include_url=False, include_context=False, include_input=False
        )
        status = (
            400 if any(fault["type"] == "json_invalid" for fault in faults) else 422
        )
        lines = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}"
            for each in faults[:REPORTED]
        )
        raise HTTPError(status, " ".join(lines.split())) from error
    check_values(dict(request), limits)
    return request


def check_values(request: Mapping[str, Any], limits: Limits) -> None:
    """Raises HTTPError 422 for more values, a longer text, larger images or a wider search than the limits allow."""
    values = list(islice(_values(request), limits.values + 1))
    if len(values) > limits.values:
        raise HTTPError(
            422,
            f"more than {limits.values} values; this server takes no more in one request",
        )
    texts = [(name, value) for name, value in values if isinstance(value, str)]
    for name, text in texts:
        if len(text) > limits.text:
            raise HTTPError(
                422,
                f"{name}: {len(text)} characters; this server takes {limits.text}, see --max-text",
            )
    try:
        pixels = sum(
            pixels_of(value, name) for name, value in values if isinstance(value, bytes)
        )
    except InputError as error:
        raise HTTPError(422, str(error)) from error
    if pixels > limits.pixels:
        raise HTTPError(
            422,
            f"images of {pixels} pixels; this server takes {limits.pixels} in one request, see --max-pixels",
        )
    beam, size = request.get("beam") or 1, sum(len(text) for _, text in texts)
    if beam > 1 and beam * size > (most := BEAM_TEXTS * limits.text):
        least = max(1, most // size)
        raise HTTPError(
            422,
            f"beam {beam} for {size} characters; at most {most} together: choose a beam of at most {least}",
        )


def _values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every single value with its place; the names of classes are values too."""
    for name, value in values.items():
        match value:
            case dict():
                yield from ((f"{name}.name", each) for each in value)
                yield from _values(
                    {f"{name}.{key}": each for key, each in value.items()}
                )
            case list() | tuple():
                yield from _values(
                    {f"{name}.{place}": each for place, each in enumerate(value)}
                )
            case _:
                yield name, value


def _bounded(name: str, kind: Any) -> Any:
    """The type of an option in JSON, within its bounds; None stays beside them."""
    if not _optional(kind):
        return _within(name, _json_type(kind))
    (inner,) = (each for each in get_args(kind) if each is not NoneType)
    return _within(name, _json_type(inner)) | None


def _within(name: str, kind: Any) -> Any:
    return Annotated[kind, BOUNDS[name]] if name in BOUNDS else kind


def _json_type(kind: Any) -> Any:
    """A type that JSON has: bytes in base64; a sequence as a tuple, which can be a key."""
    if kind is bytes:
        return Base64Bytes
    origin, of = get_origin(kind), tuple(map(_json_type, get_args(kind)))
    if origin is Sequence:
        return tuple[*of, ...]
    return GenericAlias(origin, of) if origin in (dict, list) else kind


def _optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)
