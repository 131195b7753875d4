"""Which requests pass, and the headers of every response."""

import asyncio
import hmac
from collections.abc import Container
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serve.clients import WrongTokens, client_of
from regard.serve.http_errors import HTTPError

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
SAFE = ("GET", "HEAD")
"""Methods that have no effect."""
OWN_SITE = ("same-origin", "none")
"""The sites that a browser names for a request of its own page or of its user."""
PROBES = ("/health", "/ready")
"""Paths for load balancers, which name no host and have no token."""
SECRET = ("/api/", "/v1/", "/metrics")
"""How the paths begin that need the token."""


def hostname(host: str) -> str:
    """The name in a host header: `[::1]:8000` -> `::1`; an empty one where there is none."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host else ""
    except ValueError:
        return ""


def origin_host(origin: str) -> str:
    """The host and port of an `Origin`, in lower case; an empty one for none and for malformed ones."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


class Guard:
    """Lets requests pass that name one of our hosts, which a rebound DNS name is not; that come from our own page or
    from no page; and, where there is a token, whose `Authorization` has it. Wrong tokens wait for their response."""

    def __init__(self, app: ASGIApp, hosts: Container[str], token: str | None) -> None:
        self.app, self.hosts = app, hosts
        self.token = None if token is None else token.encode("utf-8", "surrogateescape")
        self.wrong = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            if scope["path"] not in PROBES:
                self.check(scope["method"], headers)
            if self.token is not None and scope["path"].startswith(SECRET):
                await self.authenticate(
                    headers.get("authorization", ""), self.token, client_of(scope)
                )
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def check(self, method: str, headers: Headers) -> None:
        """Raises HTTPError for a request that does not pass."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if hostname(host) not in self.hosts:
            raise HTTPError(
                400, f"host {host[:80]!r} is not served here; name it with --allow-host"
            )
        if method not in SAFE:
            if origin is not None and origin_host(origin) != host.lower():
                raise HTTPError(
                    403,
                    f"origin {origin[:80]!r} may not ask; open the page of this server",
                )
            if headers.get("sec-fetch-site", "none") not in OWN_SITE:
                raise HTTPError(
                    403,
                    "a page of another site may not ask; open the page of this server",
                )

    async def authenticate(self, authorization: str, token: bytes, client: str) -> None:
        """Raises HTTPError for a missing token at once, for a wrong one after a delay, and for any token of a client
        whose delays have grown too long: otherwise it would try many at a time."""
        missing = HTTPError(
            401, "the token is missing or wrong", {"www-authenticate": "Bearer"}
        )
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() != "bearer" or not credentials.strip():
            raise missing
        self.wrong.check(client)
        # a header's bytes are read as Latin-1
        if not hmac.compare_digest(
            credentials.strip().encode("latin-1", "replace"), token
        ):
            await asyncio.sleep(self.wrong.add(client))
            raise missing
