"""The server: a socket, uvicorn, and an end in good order."""

import ipaddress
import logging
import signal
import socket
from collections.abc import Sequence
from types import FrameType
from urllib.parse import urlunsplit

import uvicorn
from starlette.types import ASGIApp

from regard.errors import InputError, RunError
from regard.extras import WINDOWS
from regard.serve.middleware import LOOPBACK, is_address, parse_host
from regard.serve.requests import ServerLimits

ALL_INTERFACES = ("0.0.0.0", "::")
"""Addresses to listen at for every interface; no browser names them."""
MAX_HEAD = 1 << 16
"""Bytes of the head of a request."""


class Terminated(RunError):
    """SIGTERM came, and every accepted request has been answered."""

    exit_code = 143


def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach a host."""
    if not is_address(host):
        return host == "localhost"
    return ipaddress.ip_address(host).is_loopback


def list_hosts(host: str, names: Sequence[str], token: str | None) -> list[str]:
    """Return the host names that a server answers to.

    Args:
        host: The address to listen at.
        names: Further names.
        token: The token that requests need, if any.

    Raises:
        InputError: Other machines reach it without a token, or a name is invalid.
    """
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host {host!r} makes the server reachable from other machines. Set "
            "--token to require a password."
        )
    hosts: list[str] = [*LOOPBACK]
    for name in (host, *names):
        bare = ":" in name and "[" not in name
        parsed = parse_host(f"[{name}]" if bare else name)
        if not parsed:
            raise InputError(
                f"--host or --allow-host is {name!r}; expected the name or the address "
                "of a host"
            )
        if parsed not in ALL_INTERFACES:
            hosts.append(parsed)
    return hosts


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens; port 0 is any free one.

    Raises:
        InputError: The host is not this machine's, or the port is taken or not allowed.
    """
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host {host!r} has no address ({error}). Try 127.0.0.1."
        ) from error
    # asyncio sets TCP_NODELAY only if the protocol has a number
    listener = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    if not WINDOWS:  # there it would let another program listen at the same port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"cannot listen at {host}, port {port}: {reason}. Choose another --host or "
            "--port."
        ) from error
    return listener


def build_server(app: ASGIApp, limits: ServerLimits) -> uvicorn.Server:
    """Build a server that answers accepted requests before it ends."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # it refuses the connection that reaches the limit
        limit_concurrency=limits.connections + 1,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=round(limits.answer_seconds) + 1,
        h11_max_incomplete_event_size=MAX_HEAD,
    )
    # uvicorn warns of whatever clients send
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Server(config)


def run_server(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until a signal comes, then answer the accepted requests.

    Raises:
        KeyboardInterrupt: Ctrl-C; a second one ends at once.
        Terminated: SIGTERM.
    """
    # asyncio warns of clients that leave
    logging.getLogger("asyncio").setLevel(logging.ERROR)

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated("stopped by SIGTERM; accepted requests have been answered")

    # uvicorn, which has its own handlers while it runs, raises the signal again
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        server.run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)


def server_url(listener: socket.socket, host: str) -> str:
    """Return the address of the page, for a browser on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    name = f"[{host}]" if ":" in host else host
    return urlunsplit(("http", f"{name}:{listener.getsockname()[1]}", "/", "", ""))
