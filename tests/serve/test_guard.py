"""Accepted requests: those of the server's own page, by its own name, and of programs on this machine."""

import asyncio
import socket
import time

import httpx
import pytest

from regard.serve.guard import HEADERS
from tests.serve.serving import serving

BODY = {"text": "a"}


def host_of(address: str) -> str:
    return address.removeprefix("http://")


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/view.js", "/view.css", "/api/runs"])
def test_every_response_has_a_security_policy(path: str):
    with serving() as address:
        response = httpx.get(address + path)
        assert response.status_code == 200
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in response.headers["content-security-policy"]
        refused = httpx.get(address + path, headers={"host": "example.com"})
        assert {name: refused.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", "[::1", ""])
def test_row_59_a_foreign_host_is_refused(host: str):
    """A name that was made to point to this machine is not one of its names."""
    with serving() as address:
        response = httpx.post(address + "/api/runs/echo/predict", json=BODY, headers={"host": host})
        assert response.status_code == 400
        assert httpx.get(address + "/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8000", "proxy.example.org"])
def test_our_own_names_are_served(host: str):
    with serving(hosts=frozenset(("localhost", "127.0.0.1", "::1", "proxy.example.org"))) as address:
        assert httpx.get(address + "/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://example.com", "null", "http://localhost:1", "https://example.org", "ws://[", "ws://[x]/"]
)
def test_row_59_a_foreign_origin_is_refused(origin: str):
    with serving() as address:
        response = httpx.post(address + "/api/runs/echo/predict", json=BODY, headers={"origin": origin})
        assert response.status_code == 403
        assert response.json()["error"].count("\n") == 0


def test_another_site_is_refused_and_our_own_page_served():
    with serving() as address:

        def status(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return httpx.post(address + "/api/runs/echo/predict", json=BODY, headers=named).status_code

        assert status(sec_fetch_site="cross-site") == 403
        assert status(sec_fetch_site="same-site") == 403
        assert status(sec_fetch_site="same-origin", origin=address) == 200
        assert status() == 200


def test_a_configured_token_is_required():
    with serving(token="sesame") as address:
        predict = address + "/api/runs/echo/predict"
        assert httpx.get(address + "/").status_code == 200  # the page itself says nothing
        assert httpx.get(address + "/api/runs").status_code == 401
        assert httpx.post(predict, json=BODY, headers={"authorization": "Bearer sesam"}).status_code == 401
        for authorization in ("Bearer sesame", "bearer sesame", "BEARER  sesame"):
            assert httpx.post(predict, json=BODY, headers={"authorization": authorization}).json() == BODY
        assert httpx.post(predict, json=BODY, headers={"authorization": "Basic sesame"}).status_code == 401


def test_many_wrong_tokens_are_delayed_and_then_refused():
    with serving(token="sesame") as address:

        async def statuses() -> list[int]:
            wrong = {"authorization": "Bearer sesam"}
            async with httpx.AsyncClient(timeout=60) as client:
                return [r.status_code for r in await asyncio.gather(*(ask(client, wrong) for _ in range(14)))]

        async def ask(client: httpx.AsyncClient, headers: dict[str, str]) -> httpx.Response:
            return await client.get(address + "/api/runs", headers=headers)

        began = time.monotonic()
        found = asyncio.run(statuses())
        assert time.monotonic() - began > 4
    assert {401, 429} == set(found)
    assert found.count(401) >= 10


def test_only_post_has_an_effect():
    with serving() as address:
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
            assert httpx.request(method, address + "/api/runs/echo/predict").status_code == 405
        for method in ("POST", "PUT", "DELETE"):
            assert httpx.request(method, address + "/api/runs").status_code == 405


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/page/../app.py", "/%2e%2e/app.py", "/page.js/..%2f", "//etc", "/app.py"]
)
def test_no_path_leaves_the_page_folder(path: str):
    """As it stands: what a client would tidy up is sent by hand."""
    with serving() as address:
        name, port = host_of(address).split(":")
        with socket.create_connection((name, int(port)), timeout=60) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 404")
