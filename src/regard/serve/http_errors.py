"""Responses that say why a request has no answer, and JSON as it is sent."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

OPENAI = "/v1/"
"""How the paths of OpenAI's interface begin."""
RETRY = 2
"""Seconds after which a client may try again."""


class HTTPError(Exception):
    """The status of the response and its one line; the connection is closed, for the body may still be on its way."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: str | None = None,
    ) -> None:
        """`code` is OpenAI's name of a fault."""
        super().__init__(message)
        self.code = code
        self.status, self.headers = status, {"connection": "close", **(headers or {})}

    def response(self, path: str = "") -> Response:
        """The response to send, under OpenAI's paths in its form."""
        if not path.startswith(OPENAI):
            return Response(
                encode({"error": str(self)}),
                self.status,
                self.headers,
                "application/json",
            )
        status = 400 if self.status == 422 else self.status
        return Response(
            encode(openai_error(self.status, str(self), self.code)),
            status,
            self.headers,
            "application/json",
        )


def openai_error(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """The body of an error in OpenAI's form."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(
        status, "invalid_request_error" if status < 500 else "server_error"
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def encode(value: Any) -> bytes:
    """Compact JSON. What UTF-8 has no bytes for, such as a lone surrogate, becomes an escape; an infinite number, such
    as the score of what is impossible, becomes null. Raises FloatingPointError for NaN, which is no answer."""
    text = json.dumps(
        _finite(value, "it"), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any, place: str) -> Any:
    match value:
        case float():
            if math.isnan(value):
                raise FloatingPointError(
                    f"the answer is refused: {place} is NaN; the run's weights may be damaged"
                )
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each, str(key)) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each, place) for each in value]
        case _:
            return value
