"""Who is slow on purpose: a connection without a request is closed, and what has not come as a whole holds no place."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from regard.serve.connection import SMALL, Bodies, Disconnected
from regard.serve.http_errors import HTTPError
from regard.serve.request import Limits
from tests.serve.serving import run, serving
from tests.serve.test_bodies import head
from tests.serve.test_requests import PREDICT, Gate

BODY = json.dumps({"text": "a"}).encode()
HASTY = Limits(head_seconds=0.3)


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    name, port = address.removeprefix("http://").split(":")
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    try:
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))
    except ConnectionError:
        return b""


def drip(connection: socket.socket, text: bytes) -> None:
    """A byte now and then, over and over, until nobody takes it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            connection.sendall(text[:1])
        except ConnectionError:
            return
        text = text[1:] + text[:1]
        time.sleep(0.02)
    raise AssertionError("a connection is held by a byte now and then")


def answered(connection: socket.socket) -> bytes:
    """All of an answer in JSON."""
    found = b""
    while not found.endswith(b"}"):
        part = connection.recv(1 << 16)
        assert part, found
        found += part
    return found


def test_a_silent_connection_times_out():
    with serving(limits=HASTY) as address, connected(address) as connection:
        assert rest(connection) == b""


def test_an_endless_head_times_out():
    """Whatever comes meanwhile: headers upon headers."""
    with serving(limits=HASTY) as address, connected(address) as connection:
        connection.sendall(b"POST /api/runs/echo/predict HTTP/1.1\r\nHost: localhost\r\n")
        drip(connection, b"x: y\r\n")
        assert rest(connection) == b""


def test_an_endless_second_head_times_out():
    with serving(limits=HASTY) as address, connected(address) as connection:
        connection.sendall(head(f"Content-Length: {len(BODY)}") + BODY)
        assert answered(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET / HTTP/1.1\r\n")
        drip(connection, b"x: y\r\n")
        assert rest(connection) == b""


def test_an_unread_body_times_out_after_its_answer():
    with serving(limits=HASTY) as address, connected(address) as connection:
        connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert answered(connection).startswith(b"HTTP/1.1 200")
        drip(connection, b"x")


def test_an_answer_may_take_longer_than_a_head():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(head_seconds=0.1)) as address:
        threading.Timer(0.5, gate.open.set).start()
        assert httpx.post(address + PREDICT, json={"text": "a"}, timeout=60).json() == {"text": "a"}


def test_arriving_bodies_take_no_place_in_the_queue():
    """There is one place, which three begun requests do not take."""
    whole = {"text": "a whole one"}
    with (
        serving(limits=Limits(inside=1)) as address,
        connected(address) as one,
        connected(address) as two,
        connected(address) as three,
    ):
        for connection in (one, two, three):
            connection.sendall(head(f"Content-Length: {len(BODY)}") + BODY[:4])
        assert httpx.get(address + "/api/runs").json()["inside"] == 0
        assert httpx.post(address + PREDICT, json=whole).json() == whole
        for connection in (one, two, three):
            connection.sendall(BODY[4:])
            assert answered(connection).startswith(b"HTTP/1.1 200")


class Sent:
    """A body in parts, which others come between; where it does not end, its client leaves."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        self.parts, self.ends = list(parts), ends

    async def __call__(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if not self.parts:
            assert not self.ends
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts) or not self.ends}


def test_all_bodies_together_hold_no_more_than_their_limit():
    """Of two that do not fit together one is refused, and told when to come again; small ones are always taken."""
    part, limits = b"x" * SMALL, Limits(bodies=3 * SMALL)
    bodies = Bodies(limits)

    async def read(sent: Sent) -> Any:
        try:
            return await bodies.read({"type": "http", "headers": []}, sent)
        except HTTPError as refused:
            return refused.status, refused.headers.get("retry-after")

    async def all_of_them(*parts: Sent) -> list[Any]:
        return await asyncio.gather(*map(read, parts))

    large, small = [Sent(part, part, part, part) for _ in range(2)], [Sent(part) for _ in range(7)]
    found = asyncio.run(all_of_them(*large, *small))
    assert part * 4 in found[:2]
    assert (503, "2") in found[:2]
    assert found[2:] == [part] * 7
    assert bodies.held == 0
    assert asyncio.run(all_of_them(Sent(part, part, part, part))) == [part * 4]


def test_a_disconnect_within_a_body_frees_its_memory():
    bodies = Bodies(Limits())
    with pytest.raises(Disconnected):
        asyncio.run(bodies.read({"type": "http", "headers": []}, Sent(b"x" * SMALL, b"x" * SMALL, ends=False)))
    assert bodies.held == 0
