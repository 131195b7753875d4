"""What the server makes of HTTP: hosts, origins, tokens, bodies, connections, metrics and logs."""

import asyncio
import contextlib
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from regard.serve.app import Endpoint
from regard.serve.middleware import HEADERS
from regard.serve.requests import HTTPError, ServerLimits, encode
from regard.serve.server import list_hosts, listen
from regard.serve.worker import IsActive, Operation, ResponsePart, Worker
from regard.version import VERSION
from tests.serve.serving import Echo, run, serving, until
from tests.serve.test_requests import PREDICT, Gate

BODY = {"text": "a"}
CONTENT = json.dumps(BODY).encode()
SMALL = ServerLimits(body=1009, text=101, body_seconds=0.5)
JSON = {"content-type": "application/json"}


@contextmanager
def connect(address: str) -> Iterator[socket.socket]:
    name, port = address.removeprefix("http://").split(":")
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def talk(address: str, *parts: bytes) -> bytes:
    """Send parts, and read until the server closes the connection."""
    with connect(address) as connection:
        for part in parts:
            connection.sendall(part)
        return read_to_end(connection)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of one run, with nothing set."""
    with serving() as where:
        yield where


def head(*lines: str) -> bytes:
    request = ["POST /api/runs/echo/predict HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*request, *lines, "", ""]).encode()


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/view.js", "/view.css", "/api/runs"])
def test_every_response_has_a_security_policy(path: str, address: str):
    response = httpx.get(address + path)
    refused = httpx.get(address + path, headers={"host": "example.com"})
    missing = httpx.get(address + "/missing")
    assert (response.status_code, refused.status_code, missing.status_code) == (200, 400, 404)
    for found in (response, refused, missing):
        assert {name: found.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in response.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", "[::1", ""])
def test_a_foreign_host_is_refused(host: str, address: str):
    assert httpx.post(address + PREDICT, json=BODY, headers={"host": host}).status_code == 400
    assert httpx.get(address + "/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8000", "proxy.example.org"])
def test_the_server_answers_to_its_names(host: str):
    with serving(hosts=["localhost", "127.0.0.1", "::1", "proxy.example.org"]) as address:
        assert httpx.get(address + "/", headers={"host": host}).status_code == 200


def test_a_server_of_all_interfaces_answers_to_addresses_and_given_names():
    hosts = list_hosts("0.0.0.0", ["proxy.example.org"], "sesame")
    assert "0.0.0.0" not in hosts
    with serving(hosts=hosts, any_address=True) as address:
        for host, status in [
            ("192.0.2.7:80", 200),
            ("[2001:db8::1]", 200),
            ("proxy.example.org", 200),
            ("example.com", 400),
        ]:
            assert httpx.get(address + "/", headers={"host": host}).status_code == status
    with serving() as address:
        assert httpx.get(address + "/", headers={"host": "192.0.2.7"}).status_code == 400


@pytest.mark.parametrize(
    "origin", ["http://example.com", "null", "http://localhost:1", "https://example.org", "ws://[", "ws://[x]/"]
)
def test_a_foreign_origin_is_refused(origin: str, address: str):
    response = httpx.post(address + PREDICT, json=BODY, headers={"origin": origin})
    assert response.status_code == 403
    assert "\n" not in response.json()["error"]


def test_another_site_is_refused_and_the_own_page_served(address: str):

    def status(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(address + PREDICT, json=BODY, headers=named).status_code

    assert status(sec_fetch_site="cross-site") == 403
    assert status(sec_fetch_site="same-site") == 403
    assert status(sec_fetch_site="same-origin", origin=address) == 200
    assert status() == 200


def test_a_configured_token_is_required():
    with serving(token="sesame") as address:

        def status(path: str, authorization: str = "") -> int:
            headers = {"authorization": authorization} if authorization else {}
            return httpx.get(address + path, headers=headers).status_code

        assert status("/") == 200  # the page itself says nothing
        for path in ("/api/runs", "/metrics", "/v1/models"):
            assert status(path) == 401
            for authorization in ("Bearer sesame", "bearer sesame", "BEARER  sesame"):
                assert status(path, authorization) == 200
            for authorization in ("Bearer sesam", "Basic sesame", "Bearer"):
                assert status(path, authorization) == 401
        assert httpx.post(address + PREDICT, json=BODY).status_code == 401
        assert httpx.get(address + "/v1/models").json()["error"]["type"] == "authentication_error"


def test_only_post_has_an_effect(address: str):
    for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert httpx.request(method, address + PREDICT).status_code == 405
    for method in ("POST", "PUT", "DELETE"):
        assert httpx.request(method, address + "/api/runs").status_code == 405


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/page/../app.py", "/%2e%2e/app.py", "/page.js/..%2f", "//etc", "/app.py"]
)
def test_no_path_leaves_the_page_folder(path: str, address: str):
    """As it stands: what a client would tidy up is sent by hand."""
    answer = talk(address, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404")


def test_a_huge_body_is_refused_before_it_arrives():
    with serving(limits=SMALL) as address:
        answer = talk(address, head(f"Content-Length: {1 << 30}"))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"1009 bytes" in answer


@pytest.mark.parametrize("framing", ["Content-Length: 4194304", "Transfer-Encoding: chunked"])
def test_a_client_that_sends_before_it_reads_gets_its_refusal(framing: str):
    part = b"x" * (1 << 22)
    body = part if framing.startswith("C") else b"400000\r\n" + part + b"\r\n0\r\n\r\n"
    with serving(limits=SMALL) as address:
        assert talk(address, head(framing) + body).startswith(b"HTTP/1.1 413")


def test_an_endless_body_is_not_read_for_ever():
    with serving(limits=SMALL) as address, connect(address) as connection:
        connection.sendall(head("Transfer-Encoding: chunked"))
        chunk, sent = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n", 0
        with contextlib.suppress(ConnectionError):
            while sent < 256:
                connection.sendall(chunk)
                sent += 1
    assert sent < 256


def test_a_slow_body_times_out():
    with serving(limits=SMALL) as address:
        answer = talk(address, head("Content-Length: 17"), b'{"text":')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"0.5 s" in answer


class Parts:
    """A body in parts with pauses; if it does not end, its client leaves."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        self.parts, self.ends = list(parts), ends

    async def __call__(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if not self.parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts) or not self.ends}


async def read_body(endpoint: Endpoint, body: Parts) -> Any:
    scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
    try:
        return await endpoint.read_body(Request(scope, body))
    except HTTPError as refused:
        return refused.status, refused.headers.get("retry-after")


def test_all_bodies_together_hold_no_more_than_their_limit():
    part, endpoint = b"x" * 1000, Endpoint({}, Worker(1), ServerLimits(bodies=6000))

    async def read_all(*bodies: Parts) -> list[Any]:
        return await asyncio.gather(*(read_body(endpoint, body) for body in bodies))

    found = asyncio.run(read_all(*(Parts(part, part, part, part) for _ in range(2))))
    assert part * 4 in found
    assert (503, "2") in found
    assert endpoint.bytes == 0
    assert asyncio.run(read_all(Parts(part, part, part, part))) == [part * 4]
    assert asyncio.run(read_all(Parts(part, ends=False))) == [(499, None)]
    assert endpoint.bytes == 0


def test_arriving_bodies_take_no_place_in_the_queue():
    complete = {"text": "a complete one"}
    with serving(limits=ServerLimits(requests=1)) as address, connect(address) as first, connect(address) as second:
        for connection in (first, second):
            connection.sendall(head(f"Content-Length: {len(CONTENT)}", "Connection: close") + CONTENT[:4])
        assert httpx.get(address + "/api/runs").json()["active"] == 0
        assert httpx.post(address + PREDICT, json=complete).json() == complete
        for connection in (first, second):
            connection.sendall(CONTENT[4:])
            assert read_to_end(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "body"),
        (b'{"text": "\xff"}', 400, "body"),
        (b"[" * 900, 400, "body"),
        (b'{"text":' + b'{"a":' * 150 + b"1" + b"}" * 151, 422, "text"),
        (b"[]", 422, "body"),
        (b'{"text": 7}', 422, "text"),
        (b'{"text": "a", "number": "7"}', 422, "number"),
        (b'{"text": "a", "txet": "b"}', 422, "txet"),
        (b"{}", 422, "text: Field required"),
        (json.dumps({"text": "a" * 102}).encode(), 422, "text: 102 characters"),
    ],
)
def test_invalid_bodies_give_a_one_line_error(body: bytes, status: int, message: str):
    with serving(limits=SMALL) as address:
        response = httpx.post(address + PREDICT, content=body, headers=JSON)
    assert response.status_code == status
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_unknown_runs_and_operations_are_named():
    with serving(run("one"), run("two")) as address:

        def response(path: str, **options: Any) -> tuple[int, str]:
            response = httpx.post(address + path, **options)
            return response.status_code, response.json()["error"]

        assert response("/api/runs/echo/predict", json={}) == (404, "no run is called 'echo'; choose one, two")
        assert response("/api/runs/one/sing", json={}) == (404, "one has no operation 'sing'; it has predict")
        assert response("/api/runs/one/predict", content=b"{}")[0] == 415
        assert response("/elsewhere", json={})[0] == 404


def test_texts_return_unchanged(address: str):
    text = 'x < y & "z" </script>\u2028\u202eabc\0 \U0001f600'
    assert httpx.post(address + PREDICT, json={"text": text}).json() == {"text": text}


def test_surrogates_and_infinities_give_valid_json():
    value = {"a": "\ud800", "b": [float("inf"), 1.5]}
    assert json.loads(encode(value)) == {"a": "\ud800", "b": [None, 1.5]}


class Accepting(asyncio.Protocol):
    """Notes the options of what it accepts."""

    def __init__(self, found: asyncio.Future[int]) -> None:
        self.found = found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.found.set_result(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


def test_accepted_connections_send_at_once():
    """TCP_NODELAY: otherwise the second part of an answer waits for the first one's acknowledgement."""

    async def option() -> int:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[int] = loop.create_future()
        with listen("127.0.0.1", 0) as listener:
            async with await loop.create_server(lambda: Accepting(found), sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                option = await found
                writer.close()
                return option

    assert asyncio.run(option()) == 1


def test_connections_beyond_the_limit_are_refused_and_then_served():
    gate = Gate()
    with (
        serving(run(predict=gate.operation), limits=ServerLimits(connections=3)) as address,
        contextlib.ExitStack() as open_connections,
    ):
        busy = [open_connections.enter_context(connect(address)) for _ in range(3)]
        for connection in busy:
            connection.sendall(head(f"Content-Length: {len(CONTENT)}", "Connection: close") + CONTENT)
        until(lambda: bool(gate.batches))
        assert httpx.post(address + PREDICT, json=BODY).status_code == 503
        gate.open.set()
        for connection in busy:
            assert read_to_end(connection).startswith(b"HTTP/1.1 200")
            connection.close()
        until(lambda: httpx.post(address + PREDICT, json=BODY).status_code == 200)


def test_what_is_no_http_gets_400_and_writes_nothing_to_the_log(caplog: pytest.LogCaptureFixture):
    with serving() as address:
        assert talk(address, b"\x16\x03\x01\x00\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert caplog.records == []


@pytest.mark.parametrize(("path", "status"), [("/health", "ok"), ("/ready", "ready")])
def test_probes_need_no_host_and_no_token(path: str, status: str):
    with serving(token="sesame") as address:
        response = httpx.get(address + path, headers={"host": "10.1.2.3:8000"})
    assert (response.status_code, response.json()) == (200, {"status": status})
    assert {name: response.headers[name] for name in HEADERS} == HEADERS


def test_metrics_count_requests_by_known_routes():
    """Paths that do not exist are one series, so that nobody can fill the memory."""
    with serving() as address:
        for text in ("a", "b"):
            httpx.post(address + PREDICT, json={"text": text})
        httpx.post(address + PREDICT, json={"text": 7})
        for path in ("/x", "/y", "/api/runs/none/predict"):
            httpx.post(address + path, json={})
            httpx.post(address + path, json={}, headers={"host": "example.com"})
        httpx.request("X", address + "/api/runs")
        response = httpx.get(address + "/metrics")
    lines = response.text.splitlines()
    assert response.headers["content-type"].startswith("text/plain; version=")
    assert f'regard_info{{version="{VERSION}"}} 1.0' in lines
    assert f'regard_requests_total{{method="POST",route="{PREDICT}",status="200"}} 2.0' in lines
    assert f'regard_requests_total{{method="POST",route="{PREDICT}",status="422"}} 1.0' in lines
    assert 'regard_requests_total{method="POST",route="other",status="404"} 3.0' in lines
    assert 'regard_requests_total{method="POST",route="other",status="400"} 3.0' in lines
    assert 'regard_requests_total{method="other",route="/api/runs",status="405"} 1.0' in lines
    assert f'regard_request_seconds_count{{route="{PREDICT}"}} 3.0' in lines
    assert "regard_requests_active 0.0" in lines
    assert not any('route="/x"' in line for line in lines)


def fail(requests: Sequence[Echo], active: IsActive) -> Iterator[ResponsePart]:
    raise RuntimeError("secret")
    yield


def fail_to_group(request: Echo) -> None:
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    "operation", [Operation(Echo, fail), Operation(Echo, lambda requests, active: iter(()), fail_to_group)]
)
def test_a_fault_of_the_server_is_500_with_all_headers_and_is_logged(
    operation: Operation, caplog: pytest.LogCaptureFixture
):
    with serving(run(predict=operation)) as address:
        response = httpx.post(address + PREDICT, json=BODY)
    assert response.status_code == 500
    assert "RuntimeError" in response.json()["error"]
    assert "secret" not in response.json()["error"]
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "secret" in caplog.text
