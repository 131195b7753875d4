"""The server: a socket, and an end in good order."""

import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from urllib.parse import urlunsplit

import uvicorn
from starlette.types import ASGIApp

from regard.errors import InputError, RunError
from regard.serve.connection import protocol
from regard.serve.guard import LOOPBACK, hostname
from regard.serve.request import Limits

EVERYWHERE = ("0.0.0.0", "::")
"""To listen there is to listen at every address; no browser names it."""


class Terminated(RunError):
    """SIGTERM came, and every request inside has been answered."""

    exit_code = 143


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed(host: str, more: Sequence[str], token: str | None) -> frozenset[str]:
    """The host names that a server which listens at `host` answers to.

    Raises:
        InputError: other machines reach it and there is no token, or one of the names is none.
    """
    if token is None and not is_loopback(host):
        raise InputError(f"--host is {host!r}, which other machines reach; give a --token that those who may ask know")
    names = [hostname(f"[{each}]" if ":" in each and "[" not in each else each) for each in (host, *more)]
    if "" in names:
        wrong = [host, *more][names.index("")]
        raise InputError(f"--host or --allow-host is {wrong!r}; expected the name or the address of a host")
    return LOOPBACK | {name for name in names if name not in EVERYWHERE}


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free.

    Raises:
        InputError: the host is none of this machine's, or the port is taken or not allowed.
    """
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host is {host!r}, which has no address ({error}); try 127.0.0.1") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        why = (error.strerror or str(error)).lower()
        raise InputError(
            f"cannot listen at {host}, port {port}: {why}; choose another with --host or --port"
        ) from error
    return listener


def server(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """A server of an application; at its end it first answers the requests inside."""
    config = uvicorn.Config(
        app,
        http=protocol(limits.head_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=round(limits.answer_seconds) + 1,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, listener: socket.socket, limits: Limits) -> None:
    """Serve until a signal comes, then answer the requests inside; a second Ctrl-C ends at once.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        Terminated: SIGTERM.
    """
    with _ending(_terminated):
        server(app, limits).run(sockets=[listener])


def _terminated(number: int, frame: FrameType | None) -> None:
    # uvicorn has its own handlers while it runs, and afterwards raises what it caught once more
    raise Terminated("stopped by SIGTERM; what was inside has been answered")


@contextmanager
def _ending(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def address(listener: socket.socket, host: str) -> str:
    """Where the page is."""
    shown = f"[{host}]" if ":" in host else host
    return urlunsplit(("http", f"{shown}:{listener.getsockname()[1]}", "/", "", ""))
