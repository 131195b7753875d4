"""What every response has, whichever part of the server gives it: headers, an id, a line in the log, a count."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.access_log import Exchange
from regard.serve.connection import CROWDED
from regard.serve.guard import HEADERS, PROBES
from regard.serve.http_errors import RETRY, HTTPError
from regard.serve.metrics import Metrics

logger = logging.getLogger(__name__)
ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
"""Ids of requests that are passed on; others are replaced."""
DRAIN_SECONDS, DRAIN_BYTES = 2.0, 32 << 20
"""How much of a refused body is read and forgotten before its connection is closed: a client that sends first and reads
later would otherwise see a broken connection, not the response."""


class Envelope:
    """Around an application: gives each response the security headers and the id of its request, answers 503 to
    connections beyond the limit and 500 to what fails, and reports each exchange to the metrics and the log."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        log: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.app, self.metrics, self.log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        letter = _Letter(scope, receive, send)
        try:
            if scope.get("state", {}).get(CROWDED) and scope["path"] not in PROBES:
                busy = HTTPError(
                    503,
                    "there are too many connections; try again",
                    {"retry-after": str(RETRY)},
                )
                await busy.response(scope["path"])(scope, letter.receive, letter.send)
            else:
                await self.app(scope, letter.receive, letter.send)
                if letter.status == 500:  # a worker has logged why
                    logger.error("request %s failed", letter.id)
        except Exception as error:
            logger.error("request %s failed", letter.id, exc_info=error)
            if letter.status == 0:
                await unexpected(error).response(scope["path"])(
                    scope, letter.receive, letter.send
                )
            elif not letter.complete:
                raise
        finally:
            self.report(letter, scope)

    def report(self, letter: "_Letter", scope: Scope) -> None:
        """Counts and logs an exchange; 499 is the status of one whose client left before its response."""
        found = "endpoint" in scope and letter.status != 404
        exchange = Exchange(
            client=str((scope.get("client") or ("-",))[0]),
            method=scope["method"],
            path=scope.get("raw_path", b"").decode("ascii", "replace"),
            status=letter.status or 499,
            sent=letter.sent,
            seconds=(letter.ended or time.perf_counter()) - letter.started,
            id=letter.id,
        )
        self.record(exchange, scope["path"] if found else "other")

    def record(self, exchange: Exchange, route: str = "other") -> None:
        """Counts an exchange under its route and logs it."""
        self.metrics.add(exchange, route)
        if self.log is not None:
            self.log(exchange)


def unexpected(error: Exception) -> HTTPError:
    """A fault of ours, without its details, which the log has."""
    return HTTPError(
        500, f"unexpected {type(error).__name__}; the server's log says more"
    )


class _Letter:
    """The messages of one exchange on their way, and what has been sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self._receive, self._send = receive, send
        self.id = headers.get("x-request-id", "")
        self.id = self.id if ID.fullmatch(self.id) else uuid.uuid4().hex
        self.status = self.sent = 0
        self.started, self.ended = time.perf_counter(), 0.0
        self.complete = False
        self._whole = False
        self._received = (
            "expect" in headers
        )  # whoever waits for a word to send the body does not send it now
        self._closes = False

    async def receive(self) -> Message:
        """The next part of the request."""
        message = await self._receive()
        self._received = not message.get("more_body", False)
        self._whole = self._received and message["type"] == "http.request"
        return message

    async def send(self, message: Message) -> None:
        """A part of the response."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS | {"x-request-id": self.id})
            if self._whole and headers.get("connection") == "close":
                del headers[
                    "connection"
                ]  # the refused request came as a whole; a new connection costs more
            self.status, self._closes = (
                message["status"],
                headers.get("connection") == "close",
            )
        else:
            self.sent += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
        if self.complete:
            self.ended = time.perf_counter()
            if self._closes and not self._received:
                await self._send({**message, "more_body": True})
                await self._drain()
                message = {"type": message["type"], "body": b"", "more_body": False}
        await self._send(message)

    async def _drain(self) -> None:
        """Read the rest of a request that has its response, within limits."""
        drained = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._received and drained < DRAIN_BYTES:
                    drained += len((await self.receive()).get("body", b""))
