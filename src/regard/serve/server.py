"""The server: a socket, and an end in good order."""

import importlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from urllib.parse import urlunsplit

import uvicorn

from regard.errors import InputError, RunError
from regard.serve.clients import literal_address
from regard.serve.connection import Connections, protocol
from regard.serve.envelope import Envelope
from regard.serve.guard import LOOPBACK, hostname
from regard.serve.request import Limits
from regard.system import WINDOWS

EVERYWHERE = ("0.0.0.0", "::")
"""To listen there is to listen at every address; no browser names it."""


class Terminated(RunError):
    """SIGTERM came, and every request inside has been answered."""

    exit_code = 143


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    address = literal_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


class NamesAndAddresses(frozenset[str]):
    """Host names, and every literal address: no name was resolved to it, so no DNS name was rebound."""

    def __contains__(self, host: object) -> bool:
        return super().__contains__(host) or (
            isinstance(host, str) and literal_address(host) is not None
        )


def allowed(host: str, more: Sequence[str], token: str | None) -> frozenset[str]:
    """The host names that a server which listens at `host` answers to; one that listens everywhere answers to every
    address too.

    Raises:
        InputError: other machines reach it and there is no token, or one of the names is none.
    """
    if token is None and not is_loopback(host):
        raise InputError(
            f"--host is {host!r}, which other machines reach; give a --token that those who may ask know"
        )
    names = [
        hostname(f"[{each}]" if ":" in each and "[" not in each else each)
        for each in (host, *more)
    ]
    if "" in names:
        wrong = [host, *more][names.index("")]
        raise InputError(
            f"--host or --allow-host is {wrong!r}; expected the name or the address of a host"
        )
    hosts = LOOPBACK | {name for name in names if name not in EVERYWHERE}
    return NamesAndAddresses(hosts) if host in EVERYWHERE else hosts


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free.

    Raises:
        InputError: the host is none of this machine's, or the port is taken or not allowed.
    """
    try:
        ((family, kind, number, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host is {host!r}, which has no address ({error}); try 127.0.0.1"
        ) from error
    # with the protocol's number, without which asyncio does not set TCP_NODELAY on what it accepts
    listener = socket.socket(family, kind, number or socket.IPPROTO_TCP)
    if not WINDOWS:  # there it would let another program listen at the same port
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


def certificate(cert: Path, key: Path) -> ssl.SSLContext:
    """TLS with a certificate and its key, both in PEM.

    Raises:
        InputError: a file is missing or no PEM, the key needs a password or belongs to another certificate.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(
            cert, key, password=""
        )  # an empty one, for otherwise it is read from the terminal
    except OSError as error:
        why = (
            error.strerror
            if not isinstance(error, ssl.SSLError)
            else error.reason or "no certificate in PEM"
        )
        raise InputError(
            f"--tls-cert {cert}, --tls-key {key}: {why}; expected a certificate and its key in PEM, without a password"
        ) from error
    return context


def server(
    app: Envelope,
    limits: Limits,
    *,
    tls: ssl.SSLContext | None = None,
    proxies: Sequence[str] = (),
) -> uvicorn.Server:
    """A server of an application; at its end it first answers the requests inside. `proxies` are the addresses whose
    `X-Forwarded-For` is believed."""
    connections = Connections(limits, app.record)
    app.metrics.gauge(
        "regard_connections", "Open connections.", lambda: len(connections)
    )
    closed = "Connections closed because others needed room."
    app.metrics.counter(
        "regard_connections_closed_total", closed, lambda: connections.closed
    )
    config = uvicorn.Config(
        app,
        http=protocol(connections, tls),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=round(limits.answer_seconds) + 1,
    )
    return uvicorn.Server(config)


def run(one: uvicorn.Server, listener: socket.socket, limits: Limits) -> None:
    """Serve until a signal comes, then answer the requests inside; a second Ctrl-C ends at once.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        Terminated: SIGTERM.
    """
    _allow_files(2 * limits.connections + 256)
    logging.getLogger("asyncio").setLevel(
        logging.ERROR
    )  # it warns of clients that leave
    with _ending(_terminated):
        one.run(sockets=[listener])


def _allow_files(count: int) -> None:
    """Raise the limit of open files, as far as the system lets us; Windows has none."""
    if WINDOWS:
        return
    resource = importlib.import_module("resource")

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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


def address(listener: socket.socket, host: str, scheme: str = "http") -> str:
    """Where the page is, for a browser on this machine."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{here}]" if ":" in here else here
    return urlunsplit((scheme, f"{shown}:{listener.getsockname()[1]}", "/", "", ""))


def address_elsewhere(listener: socket.socket, scheme: str = "http") -> str | None:
    """Where the page of a server that listens everywhere is for other machines; None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # chooses the interface and sends nothing
            return address(listener, probe.getsockname()[0], scheme)
        except OSError:
            return None
