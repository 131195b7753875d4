"""`regard serve`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from regard.cli.options import Int8
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.serve.operation import ServedRun
    from regard.serve.request import Limits

MOST_WORKERS = 64
Runs = Annotated[
    Path,
    Parameter(
        name="RUN", help="Folders of trained runs, which the page switches between."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """The address of the server and its access."""

    host: Annotated[
        str,
        Parameter(
            help="The address to listen at; beyond this machine it needs a --token."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Parameter(help="The port; 0 is any free one.")] = 8000
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Another host name of the server, such as a proxy's. Repeatable.",
        ),
    ] = ()
    token: Annotated[
        str | None,
        Parameter(
            env_var="REGARD_TOKEN",
            show_default=False,
            help="The token of every request, best set by the variable.",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        Parameter(
            show_default=False,
            help="The file of a certificate in PEM, for https; with --tls-key.",
        ),
    ] = None
    tls_key: Annotated[
        Path | None, Parameter(show_default=False, help="The file of its key in PEM.")
    ] = None
    proxy: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="The address of a proxy, whose X-Forwarded-For names the clients. Repeatable.",
        ),
    ] = ()

    def check(self) -> None:
        """Raises InputError."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InputError(
                "--tls-cert and --tls-key go together; give both or neither"
            )
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port is {self.port}; expected 0 to 65535")
        if self.token == "":
            raise InputError("--token is empty; give one that nobody guesses")


@Parameter(name="*")
@dataclass(frozen=True)
class Most:
    """The limits of the server."""

    max_text: Annotated[int, Parameter(help="The maximum of characters of a text.")] = (
        5000
    )
    max_pixels: Annotated[
        int, Parameter(help="The maximum of pixels of all images of a request.")
    ] = 1 << 22
    workers: Annotated[
        int | None,
        Parameter(
            show_default=False,
            help="Threads that answer, each a batch; by default as many as cores, 2 to 8.",
        ),
    ] = None
    queue: Annotated[
        int, Parameter(help="The maximum of requests at a time; others get 503.")
    ] = 32
    per_client: Annotated[
        int,
        Parameter(
            help="The maximum of requests at a time of one client address; others get 429."
        ),
    ] = 24
    seconds: Annotated[float, Parameter(help="The time limit of a request.")] = 120.0

    def check(self) -> None:
        """Raises InputError."""
        for name, value in self.counts():
            if value < 1:
                raise InputError(f"{name} is {value}; expected at least 1")
        if self.workers is not None and not 1 <= self.workers <= MOST_WORKERS:
            raise InputError(
                f"--workers is {self.workers}; expected 1 to {MOST_WORKERS}"
            )
        if not 0 < self.seconds <= 86400:
            raise InputError(
                f"--seconds is {self.seconds:g}; expected more than 0 and at most 86400"
            )

    def limits(self, workers: int) -> "Limits":
        """What a server with so many workers accepts."""
        from regard.serve.request import Limits

        return Limits(
            text=self.max_text,
            pixels=self.max_pixels,
            inside=self.queue,
            per_client=self.per_client,
            workers=workers,
            answer_seconds=self.seconds,
        )

    def counts(self) -> Sequence[tuple[str, int]]:
        """Each option that is a count, and its value."""
        lengths = ("--max-text", self.max_text), ("--max-pixels", self.max_pixels)
        return *lengths, ("--queue", self.queue), ("--per-client", self.per_client)


HERE, OWN = Place(), Most()
Log = Annotated[
    Literal["text", "json"] | None,
    Parameter(
        show_default=False,
        help="Write a line for each request on standard output, as text or as JSON.",
    ),
]


def serve(
    run: Runs,
    /,
    *more: Runs,
    place: Place = HERE,
    most: Most = OWN,
    int8: Int8 = False,
    access_log: Log = None,
) -> None:
    """Serve runs to a browser and to programs.

    A page that streams predictions, and JSON. SIGHUP reloads the runs.
    """
    place.check()
    most.check()
    from regard.serve.hangup import noting_hangups

    with noting_hangups():  # from before anything heavy is imported
        _serve([run, *more], place, most, int8, access_log)


def _serve(
    folders: Sequence[Path], place: Place, most: Most, int8: bool, access_log: Log
) -> None:
    from regard.hub.opening import open_run
    from regard.serve.access_log import AccessLog
    from regard.serve.app import application
    from regard.serve.catalog import load_runs
    from regard.serve.server import allowed, certificate, listen, server
    from regard.serve.server import run as run_server
    from regard.serve.worker import share_cores

    hosts = allowed(place.host, place.allow_host, place.token)
    limits = most.limits(share_cores(most.workers))
    tls = (
        None
        if place.tls_cert is None or place.tls_key is None
        else certificate(place.tls_cert, place.tls_key)
    )

    def reload() -> "Sequence[ServedRun]":
        if tls is not None and place.tls_cert is not None:
            tls.load_cert_chain(place.tls_cert, place.tls_key, password="")
        return load_runs(folders, int8=int8, open_run=open_run)

    with listen(place.host, place.port) as listener:
        runs = load_runs(folders, int8=int8, open_run=open_run)
        log = None if access_log is None else AccessLog(access_log)
        app = application(
            runs, limits, hosts=hosts, token=place.token, reload=reload, log=log
        )
        say(_greeting([each.name for each in runs], place, listener))
        run_server(server(app, limits, tls=tls, proxies=place.proxy), listener, limits)


def _greeting(names: Sequence[str], place: Place, listener: socket) -> str:
    """Where the page is and how to end the server."""
    from regard.serve.server import EVERYWHERE, address, address_elsewhere

    scheme = "http" if place.tls_cert is None else "https"
    secret = "" if place.token is None else "#token=..."
    lines = [f"{', '.join(names)}: {address(listener, place.host, scheme)}{secret}"]
    if place.host in EVERYWHERE:
        elsewhere = address_elsewhere(listener, scheme)
        lines += (
            [f"From other machines: {elsewhere}{secret}"]
            if elsewhere is not None
            else []
        )
        lines += [
            "Requests that name this machine by a DNS name are refused (400) until --allow-host NAME allows the name."
        ]
    return "\n".join([*lines, "Ctrl-C ends."])
