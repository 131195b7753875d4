"""Counts of requests and their times, in the text format of Prometheus."""

import os
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from regard.serve.access_log import Exchange
from regard.version import VERSION

BUCKETS = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
)
"""Upper bounds of the histogram, in seconds."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MEMORY = Path("/proc/self/statm")


class Histogram:
    """Seconds by bucket, and their sum."""

    def __init__(self) -> None:
        self.counts, self.sum = [0] * (len(BUCKETS) + 1), 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Its series: each bucket has those of the smaller ones too."""
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    """What `/metrics` shows. Labels are bounded: only routes that exist and methods of HTTP are their values."""

    def __init__(self) -> None:
        self.began = time.time()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.values: dict[str, tuple[str, str, Callable[[], float]]] = {
            "process_start_time_seconds": (
                "gauge",
                "Start of the process since the epoch.",
                lambda: self.began,
            ),
            "process_resident_memory_bytes": (
                "gauge",
                "Resident memory of the process.",
                resident,
            ),
        }

    def gauge(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show a value as it is at the time of the request."""
        self.values[name] = ("gauge", about, value)

    def counter(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Show a count that only grows."""
        self.values[name] = ("counter", about, value)

    def add(self, exchange: Exchange, route: str) -> None:
        """Count a request of a route."""
        method = exchange.method if exchange.method in METHODS else "other"
        self.requests[method, route, exchange.status] += 1
        self.seconds.setdefault(route, Histogram()).add(exchange.seconds)

    def text(self) -> str:
        """The whole page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("regard_info", "gauge", "The version of the server.")
        yield f'regard_info{{version="{VERSION}"}} 1'
        yield from _head(
            "regard_requests_total", "counter", "Requests by method, route and status."
        )
        for (method, route, status), count in sorted(self.requests.items()):
            labels = _labels({"method": method, "route": route, "status": str(status)})
            yield f"regard_requests_total{{{labels}}} {count}"
        yield from _head(
            "regard_request_seconds",
            "histogram",
            "Seconds from the head of a request to its last byte.",
        )
        for route, histogram in sorted(self.seconds.items()):
            yield from histogram.lines(
                "regard_request_seconds", _labels({"route": route})
            )
        for name, (kind, about, value) in self.values.items():
            yield from _head(name, kind, about)
            yield f"{name} {value():.17g}"


def resident() -> float:
    """Bytes of memory that this process has now; not a number where the system does not show them."""
    if sys.platform != "linux":
        return float("nan")
    return float(
        int(MEMORY.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    )


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _labels(values: Mapping[str, str]) -> str:
    """Labels with their values, escaped."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    return ",".join(
        f'{name}="{value.translate(escapes)}"' for name, value in values.items()
    )
