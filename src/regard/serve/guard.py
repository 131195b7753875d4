"""Which requests pass, and the headers of every response."""

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http_errors import HTTPError

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
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
SAFE = ("GET", "HEAD")
"""Methods that have no effect."""
OWN_SITE = ("same-origin", "none")
"""The sites that a browser names for a request of its own page or of its user."""


def hostname(host: str) -> str:
    """The name in a host header: `[::1]:8000` -> `::1`; an empty one where there is none."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "") if parts.netloc == host else ""
    except ValueError:
        return ""


class Guard:
    """Lets requests pass that name one of our hosts, which a rebound DNS name is not; that come from our own page or
    from no page; and, where there is a token, whose `Authorization` has it."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str | None) -> None:
        self.app, self.hosts, self.token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            self.check(scope["method"], scope["path"], Headers(scope=scope))
        except HTTPError as error:
            await error.response()(scope, receive, sealed)
            return
        await self.app(scope, receive, sealed)

    def check(self, method: str, path: str, headers: Headers) -> None:
        """Raises HTTPError for a request that does not pass."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if hostname(host) not in self.hosts:
            raise HTTPError(400, f"host {host[:80]!r} is not served here; name it with --allow-host")
        if method not in SAFE:
            if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
                raise HTTPError(403, f"origin {origin[:80]!r} may not ask; open the page of this server")
            if headers.get("sec-fetch-site", "none") not in OWN_SITE:
                raise HTTPError(403, "a page of another site may not ask; open the page of this server")
        if self.token is not None and path.startswith("/api/"):
            token = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(token.encode(), self.token.encode()):
                raise HTTPError(401, "the token is missing or wrong", {"www-authenticate": "Bearer"})
