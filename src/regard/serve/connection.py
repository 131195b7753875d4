"""What a connection may take: heads that come in time, bodies within limits of size, time and memory."""

import asyncio
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.http_errors import RETRY, HTTPError
from regard.serve.request import Limits

SMALL = 1 << 16
"""Bytes that every body may have, however much there is of others."""


def protocol(seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol, which closes a connection that has no whole head of a request for so long: from its first
    moment on and after each answer, whatever else is sent meanwhile. uvicorn itself waits for ever for the first head,
    and for the others while anything comes."""

    class TimedProtocol(H11Protocol):
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.start_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.stop_timer()

        def start_timer(self) -> None:
            """Expect a head, unless there is a request that has no answer yet."""
            if self.cycle is not None and not self.cycle.response_complete:
                self.stop_timer()
            elif self.timer is None and not self.transport.is_closing():
                self.timer = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def stop_timer(self) -> None:
            """Expect nothing."""
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None

    return TimedProtocol


class Disconnected(Exception):
    """The client has left before its request was whole."""


class Bodies:
    """Reads bodies, and counts the memory of those that are on their way."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """A whole body.

        Raises:
            HTTPError: it is too long, known before it is read, or too slow, or there is no memory beside the others.
            Disconnected: the client has left.
        """
        length = Headers(scope=scope).get("content-length", "")
        self._check(int(length) if length.isdecimal() else 0)
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while await self._more(body, receive):
                    pass
        except TimeoutError as error:
            raise HTTPError(408, f"the body took longer than {self.limits.body_seconds:g} s to come") from error
        finally:
            self.held -= _large(len(body))
        return bytes(body)

    async def _more(self, body: bytearray, receive: Receive) -> bool:
        """Appends a part of a body; whether there is another."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        before = len(body)
        body += message.get("body", b"")
        self.held += _large(len(body)) - _large(before)
        self._check(len(body))
        if self.held > self.limits.bodies:
            raise HTTPError(503, "other requests are on their way; try again", {"retry-after": str(RETRY)})
        return message.get("more_body", False)

    def _check(self, size: int) -> None:
        """Raises HTTPError."""
        if size > self.limits.body:
            raise HTTPError(413, f"the body is longer than the {self.limits.body} bytes that this server takes")


def _large(size: int) -> int:
    """The bytes of a body that are counted."""
    return max(0, size - SMALL)
