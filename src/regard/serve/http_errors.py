"""Responses that say why a request has no answer, and JSON as it is sent."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

RETRY = 2
"""Seconds after which a client may try again."""


class HTTPError(Exception):
    """The status of the response and its one line; the connection is closed, for the body may still be on its way."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, {"connection": "close", **(headers or {})}

    def response(self) -> Response:
        """The response to send."""
        return Response(encode({"error": str(self)}), self.status, self.headers, "application/json")


def encode(value: Any) -> bytes:
    """Compact JSON. What UTF-8 has no bytes for, such as a lone surrogate, becomes an escape; an infinite number, such
    as the score of what is impossible, becomes null."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value
