"""Half an hour of paced requests on `regard serve`: its memory, threads and files, and what clients saw, each minute.

`python -m benchmarks.soak [--minutes N] [RUN]`. Clients of seven kinds send some 20 requests a second together:
predictions, streamed answers, attention, bodies that are wrong, bytes that are no HTTP, a fresh connection for each
request, and streams that are left after their first line. Every fifth minute SIGHUP reloads the run. Exit code 1 if any
response had a status that its kind does not have, or memory grew from the second quarter of the time to the last by
more than `GROWTH` MB.
"""

import argparse
import asyncio
import itertools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from benchmarks import report
from benchmarks.serving import RUN, TEXTS, Server, started

PACE = 0.35
"""Seconds from one request of a kind to the next."""
RELOAD = 5
"""Minutes from one reload to the next."""
GROWTH = 8.0
"""Megabytes within which memory counts as flat."""
WRONG = (b'{"text": "9 May', b"[1, 2]", b'{"text": 5}', b'{"txt": "a"}', b"\xff\xfe", b'{"text": "a", "beam": -1}')

Asking = Callable[[httpx.AsyncClient, str, int], Awaitable[int]]


async def predict(client: httpx.AsyncClient, run: str, number: int) -> int:
    """A prediction; every third with a beam."""
    options: dict[str, Any] = {"beam": 3} if number % 3 == 0 else {}
    return (await client.post(f"{run}/predict", json={"text": text(number)} | options)).status_code


async def stream(client: httpx.AsyncClient, run: str, number: int) -> int:
    """A streamed answer with its view, read to the end."""
    async with client.stream("POST", f"{run}/stream", json={"text": text(number), "view": True}) as response:
        lines = [line async for line in response.aiter_lines()]
    return response.status_code if json.loads(lines[-1])["event"] == "done" else 0


async def leave(client: httpx.AsyncClient, run: str, number: int) -> int:
    """A streamed answer that is left after its first line."""
    async with client.stream("POST", f"{run}/stream", json={"text": text(number) * 20}) as response:
        await anext(response.aiter_lines())
    return response.status_code


async def attention(client: httpx.AsyncClient, run: str, number: int) -> int:
    """The view of a text."""
    return (await client.post(f"{run}/attention", json={"text": text(number)})).status_code


async def wrong(client: httpx.AsyncClient, run: str, number: int) -> int:
    """A body that is refused."""
    headers = {"content-type": "application/json"}
    return (await client.post(f"{run}/predict", content=WRONG[number % len(WRONG)], headers=headers)).status_code


async def fresh(client: httpx.AsyncClient, run: str, number: int) -> int:
    """A prediction on a connection of its own."""
    async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as own:
        return await predict(own, run, number)


async def no_http(client: httpx.AsyncClient, run: str, number: int) -> int:
    """Bytes that are no request."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"GET / HTTP/1.1\r\nno header\r\n\r\n" if number % 2 else b"\x16\x03\x01\x00\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return int(answer.split(maxsplit=2)[1])


KINDS: Mapping[str, tuple[Asking, tuple[int, ...]]] = {
    "predict": (predict, (200,)),
    "stream": (stream, (200,)),
    "leave": (leave, (200,)),
    "attention": (attention, (200,)),
    "wrong": (wrong, (400, 422)),
    "fresh": (fresh, (200,)),
    "no http": (no_http, (400,)),
}
"""How a client of each kind sends a request, and the statuses of its responses."""


def text(number: int) -> str:
    """A text that differs from the one before."""
    return f"{TEXTS[number % len(TEXTS)]} {number % 31}"


async def ticks(seconds: float, until: float) -> AsyncIterator[int]:
    """Numbers at a steady pace; what was late is not made up for."""
    for number in itertools.count():
        begun = time.monotonic()
        if begun >= until:
            return
        yield number
        await asyncio.sleep(max(0.0, begun + seconds - time.monotonic()))


async def paced(kind: str, client: httpx.AsyncClient, run: str, until: float, seen: Counter[str]) -> None:
    """One client of a kind."""
    ask, expected = KINDS[kind]
    async for number in ticks(PACE, until):
        try:
            status = await ask(client, run, number)
        except (httpx.HTTPError, OSError) as error:
            status = 0
            print(f"{kind}: {type(error).__name__}: {error}", file=sys.stderr)
        seen["requests"] += 1
        seen["errors"] += status not in expected
        if status not in (*expected, 0):
            print(f"{kind}: status {status}", file=sys.stderr)


async def watch(server: Server, minutes: int, seen: Counter[str]) -> list[dict[str, Any]]:
    """A row each minute; reloads now and then."""
    own, rows, begun = psutil.Process(server.pid), [], time.monotonic()
    for minute in range(minutes + 1):
        await asyncio.sleep(max(0.0, begun + 60 * minute - time.monotonic()))
        with own.oneshot():
            state = {"memory_mb": own.memory_info().rss / 1e6, "threads": own.num_threads(), "files": own.num_fds()}
        rows.append({"minute": minute, "requests": seen["requests"], "errors": seen["errors"], **state})
        report.row(*(f"{value:.1f}" if isinstance(value, float) else value for value in rows[-1].values()))
        if minute % RELOAD == 3:
            own.send_signal(signal.SIGHUP)
    return rows


async def soak(server: Server, run: str, minutes: int) -> list[dict[str, Any]]:
    """All clients together."""
    seen, until = Counter[str](), time.monotonic() + 60 * minutes
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=60) as client:
        watching = asyncio.create_task(watch(server, minutes, seen))
        await asyncio.gather(*(paced(kind, client, f"/api/runs/{run}", until, seen) for kind in KINDS))
    return await watching


def growth(rows: Sequence[Mapping[str, Any]]) -> float:
    """Megabytes from the second quarter of the time to the last, by their medians."""
    memory = [row["memory_mb"] for row in rows]
    quarter = max(1, len(memory) // 4)
    return median(memory[-quarter:]) - median(memory[quarter : 2 * quarter])


def main(arguments: Sequence[str] | None = None) -> int:
    """All of it, as a table."""
    parser = argparse.ArgumentParser(description="Paced requests on regard serve for a long time.")
    parser.add_argument("run", type=Path, nargs="?", default=report.ROOT / RUN, help="the folder of a run")
    parser.add_argument("--minutes", type=int, default=30)
    chosen = parser.parse_args(arguments)
    report.head("minute", "requests", "errors", "memory, MB", "threads", "files")
    with started("now", report.ROOT, chosen.run.resolve()) as server:
        rows = asyncio.run(soak(server, chosen.run.name, chosen.minutes))
    grown, errors = growth(rows), rows[-1]["errors"]
    print(f"\nmemory grew by {grown:.1f} MB from the second quarter to the last; {errors} errors")
    report.write("soak", rows, minutes=chosen.minutes, pace=PACE, growth_mb=grown)
    return int(errors > 0 or grown > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
