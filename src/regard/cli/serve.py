"""`regard serve`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regard.cli.options import Int8
from regard.cli.output import say
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.serve.requests import Limits

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
    proxy: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="The address of a proxy, whose X-Forwarded-For names the clients. Repeatable.",
        ),
    ] = ()

    def check(self) -> None:
        """Raise InputError."""
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
    seconds: Annotated[float, Parameter(help="The time limit of a request.")] = 120.0

    def check(self) -> None:
        """Raise InputError."""
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
        """Return what a server with so many workers accepts."""
        from regard.serve.requests import Limits

        return Limits(
            text=self.max_text,
            pixels=self.max_pixels,
            requests=self.queue,
            workers=workers,
            answer_seconds=self.seconds,
        )

    def counts(self) -> Sequence[tuple[str, int]]:
        """Return each option that is a count, and its value."""
        return (
            ("--max-text", self.max_text),
            ("--max-pixels", self.max_pixels),
            ("--queue", self.queue),
        )


HERE, OWN = Place(), Most()
AccessLog = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Write a line for each response to standard output.",
    ),
]


def serve(
    run: Runs,
    /,
    *more: Runs,
    place: Place = HERE,
    most: Most = OWN,
    int8: Int8 = False,
    access_log: AccessLog = False,
) -> None:
    """Serve runs to a browser and to programs.

    A page that streams predictions, and JSON.
    """
    place.check()
    most.check()
    from regard.hub.open_run import open_run
    from regard.serve.app import build_app
    from regard.serve.runs import load_runs
    from regard.serve.server import (
        ALL_INTERFACES,
        allowed_hosts,
        build_server,
        listen,
        run_server,
    )
    from regard.serve.worker import share_cores

    hosts = allowed_hosts(place.host, place.allow_host, place.token)
    limits = most.limits(share_cores(most.workers))
    with listen(place.host, place.port) as listener:
        runs = load_runs([run, *more], int8=int8, open_run=open_run)
        app = build_app(
            runs,
            limits,
            hosts=hosts,
            any_address=place.host in ALL_INTERFACES,
            token=place.token,
        )
        server = build_server(app, limits, access_log=access_log, proxies=place.proxy)
        say(_greeting([served.name for served in runs], place, listener))
        run_server(server, listener)


def _greeting(names: Sequence[str], place: Place, listener: socket) -> str:
    """Return where the page is and how to end the server."""
    from regard.serve.server import ALL_INTERFACES, network_url, server_url

    secret = "" if place.token is None else "#token=..."
    lines = [f"{', '.join(names)}: {server_url(listener, place.host)}{secret}"]
    if place.host in ALL_INTERFACES:
        url = network_url(listener)
        if url is not None:
            lines.append(f"From other machines: {url}{secret}")
        lines.append(
            "Requests that name this machine by a DNS name are refused (400) until "
            "--allow-host NAME allows the name."
        )
    return "\n".join([*lines, "Ctrl-C ends."])
