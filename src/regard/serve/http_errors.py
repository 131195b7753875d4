"""Requests that are not answered, and why."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

RETRY = 2
"""Seconds after which a client may try again."""


class Refused(Exception):
    """The status of the response and its one line; the connection is closed, for the body may still be on its way."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, {"connection": "close", **(headers or {})}

    def response(self) -> Response:
        """As it is sent."""
        return Response(encoded({"error": str(self)}), self.status, self.headers, "application/json")


def encoded(value: Any) -> bytes:
    """Compact JSON; what UTF-8 has no bytes for, such as a lone surrogate, as an escape; infinite numbers, such as the
    score of what is impossible, as null."""
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
