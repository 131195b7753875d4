"""What a request asks, checked before anything is done."""

from collections.abc import Iterator
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.attribution.kinds import Kind
from regard.serve.http_errors import Refused
from regard.serve.limits import Limits

A = TypeVar("A", bound="Ask")
SHOWN = 3
"""Faults of one request that are told."""
Kinds = Annotated[tuple[Kind, ...], Field(min_length=1, max_length=4)]
"""What a view is to have: the maps of the first kind, and those of the others beside them."""


class Ask(BaseModel):
    """A body in JSON: its keys and their types; nothing else is taken."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def parse(kind: type[A], body: bytes, limits: Limits) -> A:
    """Raises Refused: 400 for what is no JSON, 422 for other keys or values than the interface has."""
    try:
        ask = kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        status = 400 if any(fault["type"] == "json_invalid" for fault in faults) else 422
        told = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in faults[:SHOWN])
        raise Refused(status, " ".join(told.split())) from error
    for name, text in _texts(dict(ask)):
        if len(text) > limits.text:
            raise Refused(422, f"{name}: {len(text)} characters; this server takes {limits.text}, see --max-text")
    return ask


def _texts(fields: dict) -> Iterator[tuple[str, str]]:
    """Every text that is to be read by a model; an image is none."""
    for name, value in fields.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, tuple):
            yield from ((f"{name}.{place}", each) for place, each in enumerate(value) if isinstance(each, str))
