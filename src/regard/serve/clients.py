"""The clients of a server, by their addresses: their places inside, and the delay of wrong tokens."""

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from regard.serve.http_errors import RETRY, HTTPError
from regard.serve.request import Limits

REMEMBERED = 1024
"""Clients with wrong tokens that are remembered before those whose delays are over are forgotten."""


def literal_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def client_of(scope: Mapping[str, Any]) -> str:
    """The client of a request: its address, of IPv6 the network of 64 bits, which one client may have as a whole."""
    host = str((scope.get("client") or ("",))[0])[:64]
    address = literal_address(host)
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(
            mapped or ipaddress.ip_network((address, 64), strict=False).network_address
        )
    return host


class Places:
    """The places of requests that wait or are answered, of which a single client has only some."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._of: Counter[str] = Counter()

    @property
    def occupied(self) -> int:
        """How many there are of them now."""
        return self._of.total()

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """One of the places for a client. Raises HTTPError: 503 where all are occupied, 429 where the client has all of
        its own."""
        if self.occupied >= self.limits.inside:
            raise HTTPError(
                503,
                f"{self.occupied} requests are inside; try again",
                {"retry-after": str(RETRY)},
            )
        if self._of[client] >= self.limits.per_client:
            why = f"{self._of[client]} requests of this client are inside; try again, see --per-client"
            raise HTTPError(429, why, {"retry-after": str(RETRY)})
        self._of[client] += 1
        try:
            yield
        finally:
            self._of[client] -= 1
            if not self._of[client]:
                del self._of[client]


class WrongTokens:
    """Delays the responses to wrong tokens, one after the other for each client, so that nobody tries many.

    delay: seconds between two of a client.
    waiting: how many may wait; further requests of the client are refused, whatever their token.
    """

    def __init__(
        self,
        delay: float = 0.5,
        waiting: int = 10,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.delay, self.waiting, self.clock = delay, waiting, clock
        self._free: dict[str, float] = {}

    def check(self, client: str) -> None:
        """Raises HTTPError for a client with too many wrong tokens."""
        seconds = self._free.get(client, 0.0) - self.clock()
        if seconds >= self.delay * self.waiting:
            why = "too many wrong tokens from this address; try again later"
            raise HTTPError(429, why, {"retry-after": str(math.ceil(seconds))})

    def add(self, client: str) -> float:
        """Count a wrong token; the seconds until its response."""
        now = self.clock()
        if len(self._free) >= REMEMBERED:
            self._free = {each: free for each, free in self._free.items() if free > now}
        self._free[client] = max(now, self._free.get(client, 0.0)) + self.delay
        return self._free[client] - now
