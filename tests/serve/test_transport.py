"""Connections: their options, their number, and responses that reach clients which send too much."""

import asyncio
import contextlib
import json
import socket
import time

import httpx
import pytest

from regard.serve.access_log import AccessLog
from regard.serve.guard import HEADERS
from regard.serve.request import Limits
from regard.serve.server import listen
from tests.serve.serving import run, serving, until
from tests.serve.test_bodies import head, talk
from tests.serve.test_connections import BODY, answered, connected, rest
from tests.serve.test_requests import PREDICT, Gate


class Accepting(asyncio.Protocol):
    """Notes the options of what it accepts."""

    def __init__(self, found: asyncio.Future[int]) -> None:
        self.found = found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.found.set_result(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_row_69_accepted_connections_send_at_once():
    """TCP_NODELAY is set, without which the second part of every answer waits for the first one's acknowledgement."""

    async def option() -> int:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[int] = loop.create_future()
        with listen("127.0.0.1", 0) as listener:
            accepting = await loop.create_server(lambda: Accepting(found), sock=listener)
            async with accepting:
                _, writer = await asyncio.open_connection(*listener.getsockname())
                option = await found
                writer.close()
                return option

    assert asyncio.run(option()) == 1


def test_row_71_idle_connections_give_way():
    """However many say nothing, requests are answered, for the connection that is idle for longest is closed."""
    with serving(limits=Limits(connections=8, head_seconds=4.0)) as address, contextlib.ExitStack() as held:
        idle = [held.enter_context(connected(address)) for _ in range(12)]
        time.sleep(0.3)  # longer than the time that a new connection has in any case
        for _ in range(3):
            assert httpx.post(address + PREDICT, json={"text": "a"}).json() == {"text": "a"}
        assert rest(idle[0]) == b""
        counts = httpx.get(address + "/metrics").text
    assert "regard_connections_closed_total 0" not in counts


def test_row_71_connections_beyond_the_limit_are_refused_with_all_headers():
    """While every connection has a request, others get 503 and when to try again; health is answered."""
    gate = Gate()
    limits = Limits(connections=3)
    with serving(run(predict=gate.operation), limits=limits) as address, contextlib.ExitStack() as held:
        busy = [held.enter_context(connected(address)) for _ in range(3)]
        for connection in busy:
            connection.sendall(head(f"Content-Length: {len(BODY)}") + BODY)
        until(lambda: bool(gate.batches))
        until(lambda: httpx.get(address + "/").status_code == 503)
        refused = httpx.post(address + PREDICT, json={"text": "b"})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert {name: refused.headers[name] for name in HEADERS} == HEADERS
        assert "too many connections" in refused.json()["error"]
        assert httpx.get(address + "/health").json() == {"status": "ok"}
        assert httpx.get(address + "/ready").json() == {"status": "ready"}
        gate.open.set()
        for connection in busy:
            assert answered(connection).startswith(b"HTTP/1.1 200")
            connection.close()
        until(lambda: httpx.post(address + PREDICT, json={"text": "b"}).status_code == 200)


def test_many_at_once_are_answered_or_refused_never_dropped():
    with serving(limits=Limits(connections=5)) as address:

        async def together() -> list[int]:
            async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
                answers = await asyncio.gather(*(client.get(address + "/") for _ in range(10)))
                return [each.status_code for each in answers]

        assert set(asyncio.run(together())) <= {200, 503}


@pytest.mark.parametrize("framing", ["Content-Length: 4194304", "Transfer-Encoding: chunked"])
def test_a_client_that_sends_before_it_reads_sees_its_refusal(framing: str):
    """The rest of its body is read and forgotten, for closing with bytes unread breaks the connection."""
    part = b"x" * (1 << 22)
    body = part if framing.startswith("C") else b"400000\r\n" + part + b"\r\n0\r\n\r\n"
    with serving(limits=Limits(body=1009)) as address, connected(address) as connection:
        connection.sendall(head(framing) + body)
        time.sleep(0.2)
        assert rest(connection).startswith(b"HTTP/1.1 413")


def test_an_endless_body_is_not_read_for_ever():
    with serving(limits=Limits(body=1009)) as address, connected(address) as connection:
        connection.sendall(head("Transfer-Encoding: chunked"))
        chunk, sent = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n", 0
        with contextlib.suppress(ConnectionError):
            while sent < 256:
                connection.sendall(chunk)
                sent += 1
    assert sent < 256


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"\x16\x03\x01\x00\r\n\r\n"])
def test_what_is_no_http_gets_400_with_all_headers_and_is_logged_and_counted(
    request_line: bytes, caplog: pytest.LogCaptureFixture
):
    """In the access log and the counts as any other request; not on standard error, which anybody could fill."""
    lines: list[str] = []
    with serving(log=AccessLog("json", lines.append)) as address:
        answer = talk(address, request_line + b"x" * 100_000)
        counts = httpx.get(address + "/metrics").text
    assert answer.startswith(b"HTTP/1.1 400")
    assert all(f"{name}: {value}".encode() in answer for name, value in HEADERS.items())
    logged = json.loads(lines[0])
    assert (logged["client"], logged["method"], logged["path"], logged["status"]) == ("127.0.0.1", "-", "-", 400)
    assert f"x-request-id: {logged['id']}\r\n".encode() in answer
    assert logged["sent"] == len(answer.partition(b"\r\n\r\n")[2])
    assert 'regard_requests_total{method="other",route="other",status="400"} 1' in counts.splitlines()
    assert caplog.records == []
