"""Load on `regard serve`: many clients, a greedy one beside an honest one, and idle connections.

`python -m benchmarks.serving [--before FOLDER] [--seconds N]`. This checkout and, with `--before`, another one serve
the same small run of dates and are measured in turn. Each client has an address of its own on the loopback and sends
its next request when it has the response to the one before; after a refusal (429, 503) it waits a tenth of a second.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import psutil

from benchmarks import report

LEVELS = (1, 8, 64, 512)
GREEDY = 64
IDLE = 600
PAUSE = 0.1
RUN = Path("tests") / "data" / "runs" / "dates"
TEXTS = ("9 May 2018", "Saturday 09 May 2018", "1/2/03", "the 3rd of July 1999")


@dataclass
class Tally:
    """What clients saw: seconds of their answers, refusals (429, 503), and connections that broke or other statuses."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    errors: int = 0

    def percentile(self, share: float) -> float | None:
        """Milliseconds that this share of the answers took at most."""
        ordered = sorted(self.seconds)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass(frozen=True)
class Row:
    """One measurement."""

    code: str
    case: str
    clients: int
    p50_ms: float | None
    p99_ms: float | None
    answers_per_s: float
    refused: int
    errors: int
    memory_mb: float


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    code: str
    port: int
    pid: int

    def row(self, case: str, clients: int, tally: Tally, seconds: float) -> Row:
        """What its clients saw, with its memory now."""
        memory = psutil.Process(self.pid).memory_info().rss / 1e6
        p50 = 1e3 * median(tally.seconds) if tally.seconds else None
        rate = len(tally.seconds) / seconds
        return Row(self.code, case, clients, p50, tally.percentile(0.99), rate, tally.refused, tally.errors, memory)


@contextmanager
def started(code: str, folder: Path, run: Path = report.ROOT / RUN) -> Iterator[Server]:
    """The server of a checkout, with one thread for arithmetic."""
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0"]
    variables = report.environment(PYTHONPATH=str(folder / "src"), OMP_NUM_THREADS="1")
    process = subprocess.Popen(command, env=variables, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found is not None, f"{code}: the server did not start"
        server = Server(code, int(found.group(1)), process.pid)
        asyncio.run(load(server, [address(0)], 1.0, Tally()))
        yield server
    finally:
        process.terminate()
        process.wait()


def address(client: int) -> str:
    """An address of a client."""
    return f"127.1.{client // 250}.{client % 250 + 1}"


async def load(server: Server, addresses: Sequence[str], seconds: float, tally: Tally) -> None:
    """Clients at these addresses, for so long."""
    end = time.perf_counter() + seconds
    await asyncio.gather(*(client(server, each, end, tally) for each in addresses))


async def client(server: Server, own: str, end: float, tally: Tally) -> None:
    """Requests one after the other, on one connection as long as it lives."""
    number = 0
    while time.perf_counter() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(own, 0))
            lives = True
            while lives and time.perf_counter() < end:
                lives = await exchange(reader, writer, TEXTS[number % len(TEXTS)], tally)
                number += 1
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            tally.errors += 1
            await asyncio.sleep(PAUSE)


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str, tally: Tally) -> bool:
    """One request and its response; whether the connection lives on."""
    body = json.dumps({"text": text}).encode()
    about = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.perf_counter()
    writer.write(b"POST /api/runs/dates/predict HTTP/1.1\r\n" + about.encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    await reader.readexactly(int(length.group(1)) if length is not None else 0)
    status = int(head.split()[1])
    if status == 200:
        tally.seconds.append(time.perf_counter() - began)
    elif status in (429, 503):
        tally.refused += 1
        await asyncio.sleep(PAUSE)
    else:
        tally.errors += 1
    return "connection: close" not in head


async def beside_greedy(server: Server, seconds: float) -> Tally:
    """What an honest client sees beside one with many connections."""
    honest = Tally()
    many = load(server, [address(1)] * GREEDY, seconds, Tally())
    await asyncio.gather(many, load(server, [address(2)], seconds, honest))
    return honest


async def beside_idle(server: Server, seconds: float) -> Tally:
    """What a client sees beside idle connections, whose heads do not end and which come again when they are closed."""
    honest, end = Tally(), time.perf_counter() + seconds

    async def idle() -> None:
        while time.perf_counter() < end:
            with suppress(OSError, TimeoutError):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(address(1), 0))
                writer.write(b"GET / HTTP/1.1\r\n")
                await asyncio.wait_for(reader.read(1), max(0.0, end - time.perf_counter()))
                writer.close()
            await asyncio.sleep(PAUSE)

    await asyncio.gather(load(server, [address(2)], seconds, honest), *(idle() for _ in range(IDLE)))
    return honest


def measured(servers: Sequence[Server], seconds: float) -> Iterator[Row]:
    """Every case, the servers in turn."""
    for clients in LEVELS:
        for server in servers:
            tally = Tally()
            asyncio.run(load(server, [address(each) for each in range(clients)], seconds, tally))
            yield server.row("clients", clients, tally, seconds)
    for server in servers:
        yield server.row(
            f"one beside a greedy one of {GREEDY}", 1, asyncio.run(beside_greedy(server, seconds)), seconds
        )
    for server in servers:
        yield server.row(f"one beside {IDLE} idle", 1, asyncio.run(beside_idle(server, seconds)), seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """All of it, as a table."""
    parser = argparse.ArgumentParser(description="Load on regard serve.")
    parser.add_argument("--before", type=Path, help="another checkout, measured beside this one")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    chosen = parser.parse_args(arguments)
    folders = {"now": report.ROOT} if chosen.before is None else {"before": chosen.before.resolve(), "now": report.ROOT}
    rows = []
    report.head("code", "case", "clients", "p50, ms", "p99, ms", "answers/s", "refused", "errors", "memory, MB")
    with ExitStack() as held:
        servers = [held.enter_context(started(code, folder)) for code, folder in folders.items()]
        for each in measured(servers, chosen.seconds):
            rows.append(asdict(each))
            values = (f"{value:.1f}" if isinstance(value, float) else value for value in rows[-1].values())
            report.row(*("-" if value is None else value for value in values))
    report.write("serving", rows, seconds=chosen.seconds)


if __name__ == "__main__":
    main()
