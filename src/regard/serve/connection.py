"""What a connection may take: heads that come in time, bodies within limits of size, time and memory."""

import asyncio
import logging
import ssl
import uuid
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.access_log import Exchange
from regard.serve.guard import HEADERS
from regard.serve.http_errors import RETRY, HTTPError, encode
from regard.serve.request import Limits

logger = logging.getLogger(__name__)
logger.setLevel(logging.ERROR)  # whatever clients send is counted and in the access log
CROWDED = "crowded"
"""The state of a request whose connection came when there was no room for it."""
SMALL = 1 << 16
"""Bytes that every body may have, however much there is of others."""
CLOSING = 2.0
"""Seconds in which a client may confirm the end of TLS; asyncio waits for 30, and the end of a server with it."""
GRACE = 1 / 20
"""The share of the time for a head that a connection has in any case; afterwards it is closed if others need room."""
LINGER = 1.0
"""Seconds for a client to read why its connection is closed."""


class Connections:
    """The open connections of a server, and which of them give way when there are too many. Requests that are no HTTP
    never reach the application, so `report` gets their exchanges from here."""

    def __init__(self, limits: Limits, report: Callable[[Exchange], None]) -> None:
        self.limits, self.report, self.closed = limits, report, 0
        self._open: dict[
            TimedProtocol, None
        ] = {}  # in the order in which they became idle

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether there are more than the limit."""
        return len(self._open) > self.limits.connections

    def add(self, connection: "TimedProtocol") -> None:
        """Count one; above the limit close those that are idle for longest, and far above it this one."""
        self._open[connection] = None
        if self.full:
            idle = [each for each in self._open if each.idle]
            for each in idle[: len(self) - self.limits.connections]:
                self.close(each)
        if len(self) > 2 * self.limits.connections:
            self.close(connection)

    def close(self, connection: "TimedProtocol") -> None:
        """Make room."""
        self.closed += 1
        self.remove(connection)
        if (
            connection.transport.get_write_buffer_size()
        ):  # its client does not read, so it would stay for ever
            connection.transport.abort()
        connection.transport.close()

    def renew(self, connection: "TimedProtocol") -> None:
        """Make it the one that has become idle last."""
        if connection in self._open:
            self.remove(connection)
            self._open[connection] = None

    def remove(self, connection: "TimedProtocol") -> None:
        """Count it no longer."""
        self._open.pop(connection, None)


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which closes a connection that has no whole head of a request for so long: from its first
    moment on and after each answer, whatever else is sent meanwhile. uvicorn itself waits for ever for the first head,
    and for the others while anything comes."""

    connections_of: Connections
    tls: ssl.SSLContext | None = None
    timer: asyncio.TimerHandle | None = None
    handshake: asyncio.Task[None] | None = None
    early = b""
    since = 0.0
    lingers = False
    late = False

    @property
    def idle(self) -> bool:
        """Whether no request is on its way, and the connection has had time to send one."""
        answered = self.cycle is None or self.cycle.response_complete
        return (
            answered
            and self.loop.time() - self.since
            > GRACE * self.connections_of.limits.head_seconds
        )

    def connection_made(self, transport: Any) -> None:
        self.logger = logger
        self.transport, self.since = transport, self.loop.time()
        self.connections_of.add(self)
        self.late = self.connections_of.full
        if self.tls is None:
            self.begin(transport)
        elif not transport.is_closing():
            transport.pause_reading()
            self.handshake = self.loop.create_task(self.encrypt(transport, self.tls))

    async def encrypt(self, transport: Any, tls: ssl.SSLContext) -> None:
        """Begin TLS on a connection that counts already: asyncio itself makes one known after its handshake, so that
        any number of idle ones would hold files."""
        seconds = self.connections_of.limits.head_seconds
        try:
            encrypted = await self.loop.start_tls(
                transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=CLOSING,
            )
        except OSError:  # the client left, was too slow, or does not speak TLS
            encrypted = None
        if encrypted is None:
            self.connections_of.remove(self)
        else:
            self.begin(encrypted)

    def begin(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self.start_timer()
        if self.early:
            self.data_received(self.early)

    def data_received(self, data: bytes) -> None:
        if self.flow is None:  # it came in one packet with the end of the handshake
            self.early += data
            return
        if self.lingers:
            return
        self.app_state = {
            **self.app_state,
            CROWDED: self.late and self.connections_of.full,
        }
        super().data_received(data)
        self.start_timer()

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self.connections_of.renew(self)
        super().on_response_complete()
        self.start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of.remove(self)
        super().connection_lost(exc)
        self.stop_timer()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request that is none, unless another response is on its way."""
        cycle, body = self.cycle, encode({"error": msg})
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.close()
                return
        about = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
        }
        about["x-request-id"] = uuid.uuid4().hex
        lines = [
            "HTTP/1.1 400 Bad Request",
            *(f"{name}: {value}" for name, value in (HEADERS | about).items()),
            "",
            "",
        ]
        self.transport.write("\r\n".join(lines).encode("ascii") + body)
        client = "-" if self.client is None else str(self.client[0])
        self.connections_of.report(
            Exchange(client, "-", "-", 400, len(body), 0.0, about["x-request-id"])
        )
        self.lingers = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER, self.transport.close)

    def start_timer(self) -> None:
        """Expect a head, unless there is a request that has no answer yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.stop_timer()
        elif self.timer is None and not self.transport.is_closing():
            seconds = self.connections_of.limits.head_seconds
            self.timer = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def stop_timer(self) -> None:
        """Expect nothing."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None


def protocol(
    connections: Connections, tls: ssl.SSLContext | None = None
) -> type[H11Protocol]:
    """The protocol of a server with these connections, encrypted with `tls`."""
    return type(
        "ServerProtocol", (TimedProtocol,), {"connections_of": connections, "tls": tls}
    )


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
            raise HTTPError(
                408, f"the body took longer than {self.limits.body_seconds:g} s to come"
            ) from error
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
            raise HTTPError(
                503,
                "other requests are on their way; try again",
                {"retry-after": str(RETRY)},
            )
        return message.get("more_body", False)

    def _check(self, size: int) -> None:
        """Raises HTTPError."""
        if size > self.limits.body:
            raise HTTPError(
                413,
                f"the body is longer than the {self.limits.body} bytes that this server takes",
            )


def _large(size: int) -> int:
    """The bytes of a body that are counted."""
    return max(0, size - SMALL)
