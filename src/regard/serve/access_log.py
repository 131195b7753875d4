"""The access log: a line for each response."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

from regard.errors import OutputClosed, RunError

LONGEST = 200
"""Characters of a path that the log shows."""
Format = Literal["text", "json"]


@dataclass(frozen=True)
class Exchange:
    """A request and its response: the client's address, bytes sent, seconds from the head to the last byte."""

    client: str
    method: str
    path: str
    status: int
    sent: int
    seconds: float
    id: str


def text_line(exchange: Exchange, now: str) -> str:
    """For people: `2026-05-09T10:11:12.131+00:00 127.0.0.1 POST /api/runs/dates/predict 200 312 B 8.9 ms 5f2c...`."""
    e = exchange
    path = e.path[:LONGEST]
    return f"{now} {e.client} {e.method} {path} {e.status} {e.sent} B {1e3 * e.seconds:.1f} ms {e.id}"


def json_line(exchange: Exchange, now: str) -> str:
    """For programs: one object."""
    shown = asdict(exchange) | {
        "path": exchange.path[:LONGEST],
        "seconds": round(exchange.seconds, 6),
    }
    return json.dumps({"time": now, **shown})


LINES: Mapping[str, Callable[[Exchange, str], str]] = {
    "text": text_line,
    "json": json_line,
}


def _print(line: str) -> None:
    print(line, flush=True)


class AccessLog:
    """Writes a line for each exchange, by default on standard output. It ends when its reader goes away; the server
    does not."""

    def __init__(self, kind: Format, write: Callable[[str], None] = _print) -> None:
        self.line, self.write = LINES[kind], write
        self.closed = False

    def __call__(self, exchange: Exchange) -> None:
        """Write its line."""
        if self.closed:
            return
        try:
            self.write(
                self.line(
                    exchange, datetime.now(UTC).isoformat(timespec="milliseconds")
                )
            )
        except (OSError, RunError, OutputClosed) as error:
            self.closed = True
            print(
                f"regard: the access log ends: {getattr(error, 'strerror', None) or error}",
                file=sys.stderr,
            )
