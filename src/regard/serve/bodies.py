"""Bodies of requests, read within limits of size, time and memory."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from regard.serve.http_errors import RETRY, Refused
from regard.serve.limits import Limits

SMALL = 1 << 16
"""Bytes that every body may have, however much there is of others."""


class Left(Exception):
    """The client has gone before its request was whole."""


class Bodies:
    """Reads bodies, and counts what those that are on their way hold in memory."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole of one. Raises Refused for one that is too long, before it is read, or too slow, or for which there
        is no memory beside the others; and Left."""
        said = Headers(scope=scope).get("content-length", "")
        self._check(int(said) if said.isdecimal() else 0)
        found = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while await self._more(found, receive):
                    pass
        except TimeoutError as error:
            raise Refused(408, f"the body took longer than {self.limits.body_seconds:g} s to come") from error
        finally:
            self.held -= _large(len(found))
        return bytes(found)

    async def _more(self, found: bytearray, receive: Receive) -> bool:
        """Puts a part behind what was found, and says whether there is another."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Left
        before = len(found)
        found += message.get("body", b"")
        self.held += _large(len(found)) - _large(before)
        self._check(len(found))
        if self.held > self.limits.bodies:
            raise Refused(503, "other requests are on their way; try again", {"retry-after": str(RETRY)})
        return message.get("more_body", False)

    def _check(self, size: int) -> None:
        """Raises Refused."""
        if size > self.limits.body:
            raise Refused(413, f"the body is longer than the {self.limits.body} bytes that this server takes")


def _large(size: int) -> int:
    """The bytes of a body that are counted."""
    return max(0, size - SMALL)
