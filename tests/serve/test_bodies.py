"""Request bodies: their size, their time, their form."""

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from regard.serve.connection import Bodies
from regard.serve.http_errors import HTTPError, encode
from regard.serve.request import Limits
from tests.serve.serving import run, serving

SMALL = Limits(body=1009, text=101, body_seconds=0.5)
JSON = {"content-type": "application/json"}


def talk(address: str, *parts: bytes) -> bytes:
    """What the server says until it closes the connection."""
    name, port = address.removeprefix("http://").split(":")
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def head(*lines: str) -> bytes:
    request = [
        "POST /api/runs/echo/predict HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        *lines,
        "",
        "",
    ]
    return "\r\n".join(request).encode()


def test_row_60_a_huge_body_is_refused_before_it_arrives():
    with serving(limits=SMALL) as address:
        answer = talk(address, head(f"Content-Length: {1 << 30}"))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"1009 bytes" in answer


def test_row_60_a_huge_body_of_unknown_length_is_read_no_further_than_its_limit():
    """Whatever the network has, no more is taken from it than fits."""
    reads = 0

    async def receive() -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": b"x" * 211, "more_body": True}

    with pytest.raises(HTTPError) as refused:
        asyncio.run(Bodies(SMALL).read({"type": "http", "headers": []}, receive))
    assert refused.value.status == 413
    assert reads == 5


def test_row_60_a_chunked_body_is_refused_too():
    with serving(limits=SMALL) as address:
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        assert talk(address, head("Transfer-Encoding: chunked"), chunk).startswith(b"HTTP/1.1 413")


def test_row_60_a_slow_body_times_out():
    with serving(limits=SMALL) as address:
        answer = talk(address, head("Content-Length: 17"), b'{"text":')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"0.5 s" in answer


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "body"),
        (b'{"text": "a"', 400, "EOF"),
        (b'{"text": "\xff"}', 400, "body"),
        (b"[" * 900, 400, "body"),
        (b'{"text":' + b'{"a":' * 150 + b"1" + b"}" * 151, 422, "text"),
        (b"[]", 422, "body"),
        (b'{"text": 7}', 422, "text: Input should be a valid string"),
        (b'{"text": "a", "number": "7"}', 422, "number"),
        (b'{"text": "a", "number": true}', 422, "number"),
        (b'{"text": "a", "txet": "b"}', 422, "txet: Extra inputs are not permitted"),
        (b"{}", 422, "text: Field required"),
        (json.dumps({"text": "a" * 102}).encode(), 422, "text: 102 characters; this server takes 101"),
    ],
)
def test_row_60_invalid_bodies_give_a_one_line_error(body: bytes, status: int, message: str):
    with serving(limits=SMALL) as address:
        response = httpx.post(address + "/api/runs/echo/predict", content=body, headers=JSON)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_unknown_runs_and_operations_are_named():
    with serving(run("one"), run("two")) as address:

        def response(path: str, **options: Any) -> tuple[int, str]:
            response = httpx.post(address + path, **options)
            return response.status_code, response.json()["error"]

        assert response("/api/runs/echo/predict", json={}) == (404, "no run is called 'echo'; there are one, two")
        assert response("/api/runs/one/sing", json={}) == (404, "one has no operation 'sing'; it has predict")
        assert response("/api/runs/one/predict", content=b"{}")[0] == 415
        assert response("/elsewhere", json={})[0] == 404


def test_texts_return_unchanged():
    text = 'x < y & "z" </script>\u2028\u202eabc\0 \U0001f600'
    with serving() as address:
        assert httpx.post(address + "/api/runs/echo/predict", json={"text": text}).json() == {"text": text}


def test_surrogates_and_infinities_give_valid_json():
    value = {"a": "\ud800", "b": [float("inf"), 1.5]}
    assert json.loads(encode(value)) == {"a": "\ud800", "b": [None, 1.5]}
