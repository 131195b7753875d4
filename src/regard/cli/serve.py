"""`regard serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regard.cli.options import Int8
from regard.cli.output import say
from regard.errors import InputError

Runs = Annotated[Path, Parameter(name="RUN", help="Folders of trained runs, which the page switches between.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """The address of the server and its access."""

    host: Annotated[str, Parameter(help="The address to listen at; beyond this machine it needs a --token.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Parameter(help="The port; 0 is any free one.")] = 8000
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="Another host name of the server, such as a proxy's. Repeatable."
        ),
    ] = ()
    token: Annotated[
        str | None,
        Parameter(
            env_var="REGARD_TOKEN", show_default=False, help="The token of every request, best set by the variable."
        ),
    ] = None

    def check(self) -> None:
        """Raises InputError."""
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port is {self.port}; expected 0 to 65535")
        if self.token == "":
            raise InputError("--token is empty; give one that nobody guesses")


@Parameter(name="*")
@dataclass(frozen=True)
class Most:
    """The limits of the server."""

    max_text: Annotated[int, Parameter(help="The maximum of characters of a text.")] = 5000
    max_pixels: Annotated[int, Parameter(help="The maximum of pixels of all images of a request.")] = 1 << 22
    queue: Annotated[int, Parameter(help="The maximum of requests at a time; others get 503.")] = 32
    seconds: Annotated[float, Parameter(help="The time limit of a request.")] = 120.0

    def check(self) -> None:
        """Raises InputError."""
        for name, value in (("--max-text", self.max_text), ("--max-pixels", self.max_pixels), ("--queue", self.queue)):
            if value < 1:
                raise InputError(f"{name} is {value}; expected at least 1")
        if not 0 < self.seconds <= 86400:
            raise InputError(f"--seconds is {self.seconds:g}; expected more than 0 and at most 86400")


HERE, OWN = Place(), Most()


def serve(run: Runs, /, *more: Runs, place: Place = HERE, most: Most = OWN, int8: Int8 = False) -> None:
    """Serve runs to a browser and to programs: a page that streams predictions, and JSON."""
    place.check()
    most.check()
    from regard.serve.app import application
    from regard.serve.catalog import load_runs
    from regard.serve.request import Limits
    from regard.serve.server import address, allowed, listen
    from regard.serve.server import run as run_server

    hosts = allowed(place.host, place.allow_host, place.token)
    limits = Limits(text=most.max_text, pixels=most.max_pixels, inside=most.queue, answer_seconds=most.seconds)
    with listen(place.host, place.port) as listener:
        runs = load_runs([run, *more], int8=int8)
        app = application(runs, limits, hosts=hosts, token=place.token)
        names = ", ".join(each.name for each in runs)
        secret = "" if place.token is None else "#token=..."
        say(f"{names}: {address(listener, place.host)}{secret}\nCtrl-C ends.")
        run_server(app, listener, limits)
