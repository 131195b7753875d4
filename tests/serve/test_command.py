"""`regard serve` as a user starts and ends it, and as examples/serving starts it."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from regard.cli.main import application
from regard.extras import how_to_install
from tests.cli.command import environment, start
from tests.code.tree import ROOT
from tests.runs.test_load import make

Regard = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("served"))[0]


@contextmanager
def served(*arguments: str, **options) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, once it says where it listens."""
    process = start("serve", *arguments, "--port", "0", **options)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"\S+://\S+:\d+/", line)
        assert found, line + (process.communicate(timeout=60)[1] if process.poll() is not None else "")
        address = found.group().rstrip("/")
        while True:
            try:
                httpx.get(address + "/", timeout=60)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield process, address
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], 'Invalid value "70000" for --port. Must be <= 65535'),
        (["--queue", "0"], 'Invalid value "0" for --queue. Must be >= 1'),
        (["--seconds", "nan"], '"nan" for --seconds'),
        (["--host", "0.0.0.0"], "reachable from other machines"),
        (["--host", "::"], "reachable from other machines"),
        (["--host", "no such host", "--token", "x"], "'no such host'"),
        (["--host", "192.0.2.1", "--token", "x"], "cannot listen at 192.0.2.1, port 8000"),
        (["--token", ""], "--token is empty"),
        (["--allow-host", "x/y"], "expected the name or the address of a host"),
        (["--prot", "1"], "--prot"),
    ],
)
def test_invalid_arguments_give_a_one_line_error(regard: Regard, run: Path, arguments: list[str], message: str):
    code, output, errors = regard("serve", str(run), *arguments)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert message in errors


def test_a_port_in_use(regard: Regard, run: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, _, errors = regard("serve", str(run), "--port", str(port))
    assert code == 2
    why = f"cannot listen at 127.0.0.1, port {port}: address already in use. Choose another --host or --port."
    assert errors == f"regard: {why}\n"


def test_missing_and_duplicate_runs(regard: Regard, run: Path, tmp_path: Path):
    code, _, errors = regard("serve", str(tmp_path), "--port", "0")
    assert (code, len(errors.splitlines())) == (2, 1)
    code, _, errors = regard("serve", str(run), str(run), "--port", "0")
    assert (code, errors) == (2, "regard: two runs are called 'run'. Rename one of their folders.\n")


@pytest.mark.slow
def test_a_missing_extra_is_named(run: Path):
    code = "import sys; sys.modules['starlette'] = None; from regard.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "serve", str(run)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"regard: this needs starlette, which is not installed: {how_to_install('starlette')}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_shuts_it_down_cleanly(run: Path, number: int, code: int):
    """What is inside is answered first."""
    with served(str(run)) as (process, address):
        found = httpx.post(address + "/api/runs/run/predict", json={"text": "abc"}, timeout=60)
        assert found.json()["tokens"]
        with httpx.stream("POST", address + "/api/runs/run/stream", json={"text": "abc" * 200}, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(number)
            rest = [json.loads(line) for line in lines]
        assert rest[-1]["event"] == "done"
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code
        assert len(errors.splitlines()) == 1, errors


def test_a_server_of_all_interfaces_prints_addresses_that_work(run: Path):
    environ = environment(REGARD_TOKEN="sesame")
    with served(str(run), "--host", "0.0.0.0", env=environ) as (process, address):
        assert address.split(":")[1] == "//127.0.0.1"
        assert process.stdout is not None
        lines = list(iter(process.stdout.readline, "Ctrl-C ends.\n"))
        assert "--allow-host NAME" in lines[-1]
        assert httpx.get(address + "/api/runs").status_code == 401
        assert httpx.get(address + "/api/runs", headers={"authorization": "Bearer sesame"}).status_code == 200


@pytest.mark.slow
def test_memory_stays_flat(run: Path):
    """Whatever is sent, and after hundreds of answers."""
    with served(str(run)) as (process, address):
        name, port = address.removeprefix("http://").split(":")
        own = psutil.Process(process.pid)
        head = "POST /api/runs/run/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

        def predict(count: int) -> None:
            with httpx.Client(timeout=60) as client:
                for number in range(count):
                    assert client.post(
                        address + "/api/runs/run/predict", json={"text": "abc" * (number % 7)}
                    ).is_success

        def send(length: str, part: bytes) -> None:
            """As much of a gibibyte as the server lets in."""
            with socket.create_connection((name, int(port)), timeout=60) as connection:
                try:
                    connection.sendall((head + length + "\r\n\r\n").encode())
                    for _ in range((1 << 30) // len(part)):
                        connection.sendall(part)
                except OSError:
                    return
            raise AssertionError("a gibibyte was let in")

        predict(50)
        before = own.memory_info().rss
        chunk = b"x" * 65536
        senders = [
            threading.Thread(target=send, args=arguments)
            for arguments in (
                ("Transfer-Encoding: chunked", b"10000\r\n" + chunk + b"\r\n"),
                (f"Content-Length: {1 << 30}", chunk),
            )
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(120)
        predict(300)
        assert own.memory_info().rss - before < 48 << 20


FOLDER = ROOT / "examples" / "serving"


def parses(arguments: list[str]) -> bool:
    """Whether the command line takes them; a wrong option raises."""
    command, _, _ = application().parse_args(arguments, print_error=False, exit_on_error=False)
    return command.__name__ == "serve"


def test_the_container_starts_a_command_that_exists_as_a_user_without_rights():
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    (runs,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    program, *arguments = json.loads(entry) + json.loads(runs)
    assert program == "regard"
    assert parses(arguments)
    assert re.search(r"^USER [1-9]\d*$", text, re.M)


def test_the_unit_starts_a_command_that_exists():
    text = (FOLDER / "regard.service").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
    program, *arguments = shlex.split(line)
    assert program.endswith("/regard")
    assert parses(arguments)
    assert "DynamicUser=yes" in text
