"""The application: its routes, and the thread behind them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.pictures.view import script, stylesheet
from regard.serve.comparing import comparing
from regard.serve.endpoint import Asking
from regard.serve.guard import LOOPBACK, Guard
from regard.serve.http_errors import Refused, encoded
from regard.serve.limits import Limits
from regard.serve.operation import Served
from regard.serve.worker import Worker
from regard.version import VERSION

JAVASCRIPT, CSS = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
FILES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "/": ("text/html; charset=utf-8", lambda: content("index.html")),
    "/page.css": (CSS, lambda: content("page.css")),
    "/page.js": (JAVASCRIPT, lambda: content("page.js")),
    "/answer.js": (JAVASCRIPT, lambda: content("answer.js")),
    "/client.js": (JAVASCRIPT, lambda: content("client.js")),
    "/view.css": (CSS, stylesheet),
    "/view.js": (JAVASCRIPT, script),
}
"""All that is ever sent beside answers, by its path; so no path leads elsewhere."""


def application(
    runs: Sequence[Served], limits: Limits, *, hosts: frozenset[str] = LOOPBACK, token: str | None = None
) -> Starlette:
    """An ASGI application that serves the runs, under the names of `hosts` alone; with a `token`, to whoever has it."""
    worker, runs = Worker(limits.together), comparing(runs)

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    asking = Asking({run.name: run for run in runs}, worker, limits)

    async def about(request: Request) -> Response:
        told = {"version": VERSION, "limits": vars(limits), "inside": asking.inside}
        return Response(encoded(told | {"runs": [run.to_json() for run in runs]}), media_type="application/json")

    routes = [Route(path, file, methods=["GET"]) for path in FILES]
    routes += [
        Route("/api/runs", about, methods=["GET"]),
        Route("/api/runs/{run}/{operation}", asking, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=working,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={HTTPException: told},
    )


async def file(request: Request) -> Response:
    """A file of the page."""
    kind, text = FILES[request.url.path]
    return Response(text(), headers={"content-type": kind})


@cache
def content(name: str) -> str:
    """A file of this package."""
    return files("regard.serve").joinpath("page", name).read_text(encoding="utf-8")


async def told(request: Request, error: Exception) -> Response:
    """What no route takes, as every other fault is told."""
    assert isinstance(error, HTTPException)
    return Refused(error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers).response()
