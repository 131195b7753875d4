"""Load on `regard serve`: `python -m benchmarks.serving [--before FOLDER]`.

This checkout and, with `--before`, another one serve the same small run of dates and are measured in turn. Each client
sends its next request when it has the response to the one before; after a refusal it waits a tenth of a second. All
traffic stays on this machine.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report

CLIENTS, SECONDS, PAUSE = (1, 8, 64), 5.0, 0.1
RUN = report.ROOT / "tests" / "data" / "runs" / "dates"
TEXTS = ("9 May 2018", "Saturday 09 May 2018", "1/2/03", "the 3rd of July 1999")


@dataclass
class Tally:
    """What clients saw: seconds of answers, refusals (429, 503), and broken connections or other statuses."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    errors: int = 0

    def percentile(self, share: float) -> float:
        """Return the milliseconds that this share of the answers took at most."""
        ordered = sorted(self.seconds)
        return 1e3 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@contextmanager
def serve(folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Start the server of a checkout with one thread for arithmetic; yield its port and process."""
    command = [sys.executable, "-m", "regard", "serve", str(RUN), "--port", "0"]
    variables = report.environment(PYTHONPATH=str(folder / "src"), OMP_NUM_THREADS="1")
    process = subprocess.Popen(command, env=variables, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert address is not None, "the server did not start"
        yield int(address[1]), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


async def run_client(port: int, end: float, tally: Tally) -> None:
    """Send requests one after the other until the end."""
    number = 0
    while time.perf_counter() < end:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            is_open = True
            while is_open and time.perf_counter() < end:
                is_open = await exchange(reader, writer, TEXTS[number % len(TEXTS)], tally)
                number += 1
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            tally.errors += 1
            await asyncio.sleep(PAUSE)


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str, tally: Tally) -> bool:
    """Send one request and count its response; return whether the connection stays open."""
    body = json.dumps({"text": text}).encode()
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.perf_counter()
    writer.write(b"POST /api/runs/dates/predict HTTP/1.1\r\n" + headers.encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    await reader.readexactly(int(length[1]) if length else 0)
    status = int(head.split()[1])
    if status == 200:
        tally.seconds.append(time.perf_counter() - began)
    elif status in (429, 503):
        tally.refused += 1
        await asyncio.sleep(PAUSE)
    else:
        tally.errors += 1
    return "connection: close" not in head


async def load(port: int, clients: int, seconds: float) -> Tally:
    """Run clients side by side."""
    tally, end = Tally(), time.perf_counter() + seconds
    await asyncio.gather(*(run_client(port, end, tally) for _ in range(clients)))
    return tally


def main() -> None:
    """Print the table and write the results."""
    parser = argparse.ArgumentParser(description="Load on regard serve.")
    parser.add_argument("--before", type=Path, help="another checkout, measured beside this one")
    before = parser.parse_args().before
    folders = ({} if before is None else {"before": before.resolve()}) | {"now": report.ROOT}
    rows: list[dict[str, Any]] = []
    report.head("code", "clients", "p50, ms", "p99, ms", "answers/s", "refused", "errors", "memory, MB")
    with ExitStack() as stack:
        servers = {code: stack.enter_context(serve(folder)) for code, folder in folders.items()}
        for clients in CLIENTS:
            for code, (port, process) in servers.items():
                tally = asyncio.run(load(port, clients, SECONDS))
                figures = [tally.percentile(0.5), tally.percentile(0.99), len(tally.seconds) / SECONDS]
                memory = process.memory_info().rss / 1e6
                report.row(code, clients, *(f"{value:.1f}" for value in figures), tally.refused, tally.errors, memory)
                rows.append({"code": code, "clients": clients, "p50_ms": figures[0], "p99_ms": figures[1]})
    report.write("serving", rows, seconds=SECONDS)


if __name__ == "__main__":
    main()
