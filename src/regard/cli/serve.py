"""`regard serve`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from regard.cli.main import Int8, say
from regard.errors import InputError

Positive = Number(gte=1)


@Parameter(name="*", negative="")
@dataclass(frozen=True)
class ServerFlags:
    """The address of the server, its access and its limits.

    Attributes:
        host: Address to listen at; beyond this machine it needs a --token.
        port: Port; 0 is any free one.
        allow_host: Another host name of the server, such as a proxy's.
        token: Access token (prefer REGARD_TOKEN).
        max_text: Maximum characters of a text.
        max_pixels: Maximum pixels of a request's images.
        workers: Threads that answer, each a batch.
        queue: Maximum requests at a time; others get 503.
        seconds: Time limit of a request.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = 8000
    allow_host: tuple[str, ...] = ()
    token: Annotated[str | None, Parameter(env_var="REGARD_TOKEN")] = None
    max_text: Annotated[int, Parameter(validator=Positive)] = 5000
    max_pixels: Annotated[int, Parameter(validator=Positive)] = 1 << 22
    workers: Annotated[int, Parameter(validator=Number(gte=1, lte=64))] = 2
    queue: Annotated[int, Parameter(validator=Positive)] = 32
    seconds: Annotated[float, Parameter(validator=Number(gt=0, lte=86400))] = 120.0


DEFAULTS = ServerFlags()


def serve(
    run: Path, /, *runs: Path, flags: ServerFlags = DEFAULTS, int8: Int8 = False
) -> None:
    """Serve runs to a browser and to programs.

    A page that streams predictions, and JSON.

    Args:
        run: Folders of runs; the page switches between them.
        runs: Folders of runs; the page switches between them.
        int8: Multiply in 8-bit integers, on a CPU by CTranslate2: faster, for nearly
            the same texts.
    """
    if flags.token == "":
        raise InputError("--token is empty; give one that nobody guesses")
    from regard.hub.open_run import open_run
    from regard.serve import server
    from regard.serve.app import build_app
    from regard.serve.requests import ServerLimits
    from regard.serve.runs import load_runs
    from regard.serve.worker import share_cores

    hosts = server.list_hosts(flags.host, flags.allow_host, flags.token)
    is_open = flags.host in server.ALL_INTERFACES
    limits = ServerLimits(
        text=flags.max_text,
        pixels=flags.max_pixels,
        requests=flags.queue,
        workers=flags.workers,
        answer_seconds=flags.seconds,
    )
    share_cores(flags.workers)
    with server.listen(flags.host, flags.port) as listener:
        served = load_runs([run, *runs], int8=int8, open_run=open_run)
        app = build_app(
            served, limits, hosts=hosts, any_address=is_open, token=flags.token
        )
        uvicorn = server.build_server(app, limits)
        names = ", ".join(item.name for item in served)
        secret = "" if flags.token is None else "#token=..."
        say(f"{names}: {server.server_url(listener, flags.host)}{secret}")
        if is_open:
            say(
                "Requests that name this machine by a DNS name are refused (400) until "
                "--allow-host NAME allows the name."
            )
        say("Ctrl-C ends.")
        server.run_server(uvicorn, listener)
