"""What runs a server in production: probes, counts, ids, logs, shares of clients, reloading, TLS."""

import asyncio
import contextlib
import json
import logging
import re
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from regard.errors import InputError
from regard.serve.access_log import AccessLog, Exchange
from regard.serve.clients import Places, WrongTokens, client_of
from regard.serve.guard import HEADERS
from regard.serve.http_errors import HTTPError
from regard.serve.operation import Active, Operation, ResponsePart, ServedRun
from regard.serve.reload import Reloader
from regard.serve.request import Limits
from regard.serve.server import allowed, certificate
from tests.serve.serving import Echo, run, serving, until
from tests.serve.test_connections import connected, rest
from tests.serve.test_requests import PREDICT, Gate

TLS = Path(__file__).parents[1] / "data" / "tls"
EXCHANGE = Exchange("127.0.0.1", "GET", "/health", 200, 15, 0.0021, "id1")


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
        for path in ("/x", "/y", "/api/runs/none/predict"):
            httpx.post(address + path, json={})
        response = httpx.get(address + "/metrics")
    lines = response.text.splitlines()
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert f'regard_requests_total{{method="POST",route="{PREDICT}",status="200"}} 2' in lines
    assert 'regard_requests_total{method="POST",route="other",status="404"} 3' in lines
    assert f'regard_request_seconds_count{{route="{PREDICT}"}} 2' in lines
    assert f'regard_request_seconds_bucket{{route="{PREDICT}",le="+Inf"}} 2' in lines
    assert "regard_requests_inside 0" in lines
    form = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [\d.e+-]+)')
    assert [line for line in lines if not form.fullmatch(line)] == []


def test_metrics_need_the_token():
    with serving(token="sesame") as address:
        assert httpx.get(address + "/metrics").status_code == 401
        assert httpx.get(address + "/metrics", headers={"authorization": "bearer sesame"}).status_code == 200


@pytest.mark.parametrize(("sent", "kept"), [("abc-1", True), ("a b", False), ("x" * 200, False), ("", False)])
def test_requests_have_ids(sent: str, kept: bool):
    with serving() as address:
        found = httpx.get(address + "/", headers={"x-request-id": sent}).headers["x-request-id"]
        refused = httpx.get(address + "/", headers={"x-request-id": sent, "host": "example.com"})
    assert (found == sent) is kept
    assert found
    assert (refused.headers["x-request-id"] == sent) is kept


def test_the_access_log_has_a_line_for_each_response():
    text, lines = [], []
    with serving(log=AccessLog("text", text.append)) as address:
        httpx.get(address + "/health?token=secret", headers={"x-request-id": "id1"})
    assert re.fullmatch(r"\S+T\S+ 127\.0\.0\.1 GET /health 200 15 B [\d.]+ ms id1", *text)
    with serving(log=AccessLog("json", lines.append)) as address:
        httpx.post(address + PREDICT, json={"text": "a"})
        httpx.get(address + "/%0a%22")
    first, second = map(json.loads, lines)
    assert (first["method"], first["path"], first["status"], first["sent"]) == ("POST", PREDICT, 200, 12)
    assert (second["path"], second["status"]) == ("/%0a%22", 404)


def test_a_log_whose_reader_goes_away_ends(capsys: pytest.CaptureFixture[str]):
    def write(line: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    log = AccessLog("text", write)
    log(EXCHANGE)
    log(EXCHANGE)
    assert capsys.readouterr().err == "regard: the access log ends: Broken pipe\n"


def test_a_client_has_only_its_share_of_the_places():
    gate = Gate()
    with serving(run(predict=gate.operation), limits=Limits(inside=3, per_client=1)) as address:
        greedy = threading.Thread(
            target=httpx.post, args=(address + PREDICT,), kwargs={"json": {"text": "a"}, "timeout": 60}
        )
        greedy.start()
        until(lambda: bool(gate.batches))
        refused = httpx.post(address + PREDICT, json={"text": "b"})
        gate.open.set()
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(transport=other) as client:
            assert client.post(address + PREDICT, json={"text": "c"}).status_code == 200
        greedy.join(60)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert "--per-client" in refused.json()["error"]


def test_places_are_freed():
    places = Places(Limits(inside=2, per_client=2))
    with places.place("a"), places.place("b"):
        assert places.occupied == 2
        with pytest.raises(HTTPError, match="2 requests are inside"), places.place("c"):
            pass
    assert places.occupied == 0


@pytest.mark.parametrize(
    ("host", "client"),
    [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("2001:db8::5:6", "2001:db8::"), ("unix", "unix")],
)
def test_clients_are_addresses_and_networks(host: str, client: str):
    assert client_of({"client": (host, 1)}) == client


def test_wrong_tokens_wait_one_after_the_other():
    now = [100.0]
    wrong = WrongTokens(delay=0.5, waiting=3, clock=lambda: now[0])
    assert [wrong.add("a") for _ in range(3)] == [0.5, 1.0, 1.5]
    assert wrong.add("b") == 0.5
    with pytest.raises(HTTPError) as refused:
        wrong.check("a")
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "2")
    wrong.check("b")
    now[0] += 2
    wrong.check("a")
    assert wrong.add("a") == 0.5


class Loaded:
    """Loads a run that says its number; what it has as an error it raises."""

    def __init__(self) -> None:
        self.number = 0
        self.error: Exception | None = None

    def __call__(self) -> Sequence[ServedRun]:
        if self.error is not None:
            raise self.error
        self.number += 1
        return [run(f"run{self.number}")]


def test_a_reload_replaces_the_runs_or_leaves_them(caplog: pytest.LogCaptureFixture):
    loaded, found = Loaded(), []

    async def reload() -> None:
        reloader = Reloader(loaded, lambda runs: found.append([each.name for each in runs]))
        await reloader.run()
        loaded.error = InputError("runs/x: has no weights")
        await reloader.run()
        loaded.error = RuntimeError("a fault")
        await reloader.run()

    with caplog.at_level(logging.INFO, logger="regard"):
        asyncio.run(reload())
    assert found == [["run1"]]
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "reloaded: run1"
    assert messages[1] == "not reloaded: runs/x: has no weights; the runs from before stay"
    assert len(messages) == 3


def test_a_certificate_encrypts():
    with serving(tls=certificate(TLS / "cert.pem", TLS / "key.pem")) as address:
        assert address.startswith("https:")
        client = httpx.Client(verify=ssl.create_default_context(cafile=TLS / "cert.pem"))
        with client:
            assert client.post(address + PREDICT, json={"text": "a"}).json() == {"text": "a"}
            origin = {"origin": address}
            assert client.post(address + PREDICT, json={"text": "a"}, headers=origin).status_code == 200


def test_row_32_the_end_does_not_wait_for_clients_that_keep_an_encrypted_connection():
    """Within less than the 30 s that asyncio waits for a client to confirm the end of TLS."""
    with httpx.Client(verify=ssl.create_default_context(cafile=TLS / "cert.pem")) as client:
        with serving(tls=certificate(TLS / "cert.pem", TLS / "key.pem")) as address:
            assert client.post(address + PREDICT, json={"text": "a"}).status_code == 200
            began = time.monotonic()
        assert time.monotonic() - began < 20


def test_row_71_connections_without_a_handshake_give_way_too():
    """Bytes that are no TLS end theirs."""
    limits, tls = Limits(connections=8, head_seconds=4.0), certificate(TLS / "cert.pem", TLS / "key.pem")
    trust = ssl.create_default_context(cafile=TLS / "cert.pem")
    with serving(limits=limits, tls=tls) as address, contextlib.ExitStack() as held:
        plain = address.replace("https:", "http:")
        idle = [held.enter_context(connected(plain)) for _ in range(12)]
        time.sleep(0.3)  # longer than the time that a new connection has in any case
        with httpx.Client(verify=trust) as client:
            for _ in range(3):
                assert client.post(address + PREDICT, json={"text": "a"}).json() == {"text": "a"}
        assert rest(idle[0]) == b""
        idle[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")
        rest(idle[-1])


def test_a_request_in_one_packet_with_the_end_of_the_handshake_is_answered():
    trust = ssl.create_default_context(cafile=TLS / "cert.pem")
    with serving(tls=certificate(TLS / "cert.pem", TLS / "key.pem")) as address:
        into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust.wrap_bio(into, out, server_hostname="localhost")
        with connected(address.replace("https:", "http:")) as connection:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(out.read())
                    into.write(connection.recv(1 << 16))
            client.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection.sendall(out.read())
            found = b""
            while b"ok" not in found:
                into.write(connection.recv(1 << 16))
                with contextlib.suppress(ssl.SSLWantReadError):
                    found += client.read(1 << 16)
    assert found.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("cert", "key", "message"),
    [("none.pem", "key.pem", "No such file"), ("cert.pem", "cert.pem", "PEM"), ("key.pem", "key.pem", "PEM")],
)
def test_files_that_are_no_certificate_give_one_line(cert: str, key: str, message: str):
    with pytest.raises(InputError, match=message) as error:
        certificate(TLS / cert, TLS / key)
    assert "\n" not in str(error.value)


def test_an_encrypted_key_is_refused_without_a_prompt(tmp_path: Path):
    key = tmp_path / "key.pem"
    lines = ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "AAAA", "-----END ENCRYPTED PRIVATE KEY-----", ""]
    key.write_text("\n".join(lines), encoding="ascii")
    with pytest.raises(InputError, match="without a password"):
        certificate(TLS / "cert.pem", key)


def test_a_server_that_listens_everywhere_answers_to_addresses_not_to_names():
    hosts = allowed("0.0.0.0", ["proxy.example.org"], "sesame")
    assert "192.0.2.7" in hosts
    assert "proxy.example.org" in hosts
    assert "example.com" not in hosts
    assert "192.0.2.7" not in allowed("127.0.0.1", [], None)


def test_the_log_names_the_request_that_a_worker_failed_at(caplog: pytest.LogCaptureFixture):
    def respond(requests: Sequence[Echo], active: Active) -> Iterator[ResponsePart]:
        raise RuntimeError("secret")
        yield

    with serving(run(predict=Operation(Echo, respond))) as address:
        response = httpx.post(address + PREDICT, json={"text": "a"}, headers={"x-request-id": "id8"})
    assert response.status_code == 500
    assert "request id8 failed" in caplog.text


def test_a_fault_of_the_server_is_500_with_all_headers(caplog: pytest.LogCaptureFixture):
    def group(request: Echo) -> None:
        raise RuntimeError("secret")

    broken = Operation(Echo, lambda requests, active: iter(()), group)
    with serving(run(predict=broken)) as address:
        response = httpx.post(address + PREDICT, json={"text": "a"}, headers={"x-request-id": "id7"})
    assert response.status_code == 500
    assert response.json() == {"error": "unexpected RuntimeError; the server's log says more"}
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "request id7 failed" in caplog.text
