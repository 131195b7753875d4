"""Middleware: which requests pass, security headers, and metrics."""

import hmac
import ipaddress
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.requests import HTTPError
from regard.version import VERSION

LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; media-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""The headers of every response."""
SAFE_METHODS = ("GET", "HEAD")
OWN_SITES = ("same-origin", "none")
"""What a browser says of a request by the server's own page or by its user."""
SECRET_PATHS = ("/api/", "/v1/", "/metrics")
"""The prefixes of paths that need the token."""
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the histogram of times, in seconds."""


def is_address(host: str) -> bool:
    """Check whether a host is written as an IP address."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def parse_host(host: str) -> str:
    """Return the name in a Host header: `[::1]:80` -> `::1`; empty if it is invalid."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host else ""
    except ValueError:
        return ""


class HostMiddleware(TrustedHostMiddleware):
    """Refuses requests to other host names, such as rebound DNS names.

    Args:
        app: The application.
        hosts: The names of the server.
        any_address: Whether every literal address is accepted too: no name was
            resolved to it, so none was rebound.
    """

    def __init__(
        self, app: ASGIApp, hosts: Sequence[str], *, any_address: bool
    ) -> None:
        patterns = [f"[{host}]" if ":" in host else host for host in hosts]
        super().__init__(app, patterns, www_redirect=False)
        self.any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = parse_host(Headers(scope=scope).get("host", ""))
        if self.any_address and is_address(host):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class AccessMiddleware:
    """Refuses requests by pages of other sites, and those without the token.

    Args:
        app: The application.
        token: The token, if one is needed.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = None if token is None else token.encode("utf-8", "surrogateescape")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if scope["method"] not in SAFE_METHODS:
            origin, host = headers.get("origin"), headers.get("host", "").lower()
            if origin is not None and origin.partition("://")[2].lower() != host:
                message = f"cross-origin request from {origin[:80]!r} refused"
                raise HTTPError(403, message)
            if headers.get("sec-fetch-site", "none") not in OWN_SITES:
                raise HTTPError(403, "cross-site request refused")
        if self.token is not None and scope["path"].startswith(SECRET_PATHS):
            scheme, _, credentials = headers.get("authorization", "").partition(" ")
            # a header's bytes are decoded as Latin-1
            value = credentials.strip().encode("latin-1", "replace")
            if scheme.lower() != "bearer" or not hmac.compare_digest(value, self.token):
                challenge = {"www-authenticate": "Bearer"}
                raise HTTPError(401, "the token is missing or wrong", challenge)
        await self.app(scope, receive, send)


class MetricsMiddleware:
    """Counts requests for Prometheus, and gives every response its headers.

    Args:
        app: The application.
        paths: The paths that are labels; clients can send any number of others.
        count_active: Counts the requests that wait or are being answered.
    """

    def __init__(
        self, app: ASGIApp, paths: Sequence[str], count_active: Callable[[], float]
    ) -> None:
        self.app = app
        self.paths = frozenset(paths)
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        text = "Version of the server."
        info = Gauge("regard_info", text, ["version"], registry=registry)
        info.labels(VERSION).set(1)
        text = "Requests that wait or are being answered."
        active = Gauge("regard_requests_active", text, registry=registry)
        active.set_function(count_active)
        labels = ["method", "route", "status"]
        text = "Requests that have ended."
        self.requests = Counter("regard_requests", text, labels, registry=registry)
        self.seconds = Histogram(
            "regard_request_seconds",
            "Seconds from the head of a request to its last byte.",
            ["route"],
            buckets=BUCKETS,
            registry=registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        # a client that leaves before its response has no status
        status, start = 499, time.perf_counter()

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = scope["path"] if scope["path"] in self.paths else "other"
            self.requests.labels(method, route, status).inc()
            self.seconds.labels(route).observe(time.perf_counter() - start)

    def response(self) -> Response:
        """Return the metrics as a response."""
        headers = {"content-type": CONTENT_TYPE_LATEST}
        return Response(generate_latest(self.registry), headers=headers)
