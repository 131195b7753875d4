"""Middleware: security headers, request ids, metrics, and which requests pass."""

import hmac
import ipaddress
import logging
import re
import time
import uuid
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

from regard.serve.requests import HTTPError, unexpected
from regard.version import VERSION

logger = logging.getLogger(__name__)
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
REQUEST_ID = re.compile(r"[A-Za-z0-9._:+/=-]{1,128}")
"""Ids that are passed on; others are replaced."""
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
UNROUTED = (400, 401, 403, 404, 405)
"""Statuses of requests that may have any path, which is then no label of a metric."""
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
        try:
            if scope["method"] not in SAFE_METHODS:
                self.check_origin(headers)
            if self.token is not None and scope["path"].startswith(SECRET_PATHS):
                self.check_token(headers.get("authorization", ""), self.token)
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def check_origin(self, headers: Headers) -> None:
        """Check that a request comes from the server's own page, or from no page.

        Raises:
            HTTPError: 403, it comes from another site.
        """
        origin, host = headers.get("origin"), headers.get("host", "").lower()
        if origin is not None and _parse_origin(origin) != host:
            raise HTTPError(403, f"cross-origin request from {origin[:80]!r} refused")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            raise HTTPError(403, "cross-site request refused")

    def check_token(self, authorization: str, token: bytes) -> None:
        """Check the token of a request.

        Raises:
            HTTPError: 401, it is missing or wrong.
        """
        scheme, _, credentials = authorization.partition(" ")
        # a header's bytes are decoded as Latin-1
        value = credentials.strip().encode("latin-1", "replace")
        if scheme.lower() != "bearer" or not hmac.compare_digest(value, token):
            raise HTTPError(
                401, "the token is missing or wrong", {"www-authenticate": "Bearer"}
            )


def _parse_origin(origin: str) -> str:
    """Return the host and port of an origin; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class Metrics:
    """The metrics of a server, in the text format of Prometheus.

    Args:
        count_active: Counts the requests that wait or are being answered.
    """

    def __init__(self, count_active: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        info = Gauge(
            "regard_info", "Version of the server.", ["version"], registry=self.registry
        )
        info.labels(VERSION).set(1)
        active = Gauge(
            "regard_requests_active",
            "Requests that wait or are being answered.",
            registry=self.registry,
        )
        active.set_function(count_active)
        self.requests = Counter(
            "regard_requests",
            "Requests by method, route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "Seconds from the head of a request to its last byte.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        method = method if method in METHODS else "other"
        self.requests.labels(method, route, status).inc()
        self.seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        """Return the metrics as a response."""
        content = generate_latest(self.registry)
        return Response(content, headers={"content-type": CONTENT_TYPE_LATEST})


class TelemetryMiddleware:
    """Gives every response its headers and id, counts it, and answers failures.

    Args:
        app: The application.
        metrics: Where requests are counted.
        paths: The paths without parameters, which are labels whatever the status.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Sequence[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get("x-request-id", "")
        if not REQUEST_ID.fullmatch(request_id):
            request_id = uuid.uuid4().hex
        status, is_complete, start = 0, False, time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS | {"x-request-id": request_id})
            else:
                is_complete = not message.get("more_body", False)
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
            if status == 500:
                logger.error("request %s failed", request_id)
        except Exception as error:
            logger.error("request %s failed", request_id, exc_info=error)
            if not status:
                response = unexpected(error).response(scope["path"])
                await response(scope, receive, send_with_headers)
            elif not is_complete:
                raise
        finally:
            path, seconds = scope["path"], time.perf_counter() - start
            is_known = path in self.paths or (status and status not in UNROUTED)
            # 499: the client left before its response
            self.metrics.add(
                scope["method"], path if is_known else "other", status or 499, seconds
            )
