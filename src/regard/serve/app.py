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
from regard.serve.comparison import with_comparison
from regard.serve.endpoint import Endpoint
from regard.serve.guard import LOOPBACK, Guard
from regard.serve.http_errors import HTTPError, encode
from regard.serve.operation import ServedRun
from regard.serve.request import Limits
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
"""Every file that is ever sent, by its path; so no path leads elsewhere."""


def application(
    runs: Sequence[ServedRun], limits: Limits, *, hosts: frozenset[str] = LOOPBACK, token: str | None = None
) -> Starlette:
    """An ASGI application that serves the runs under the names of `hosts`, with a `token` to clients that have it."""
    worker, runs = Worker(limits.together), with_comparison(runs)

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    endpoint = Endpoint({run.name: run for run in runs}, worker, limits)

    async def describe(request: Request) -> Response:
        about = {"version": VERSION, "limits": vars(limits), "inside": endpoint.inside}
        return Response(encode(about | {"runs": [run.to_json() for run in runs]}), media_type="application/json")

    routes = [Route(path, file, methods=["GET"]) for path in FILES]
    routes += [
        Route("/api/runs", describe, methods=["GET"]),
        Route("/api/runs/{run}/{operation}", endpoint, methods=["POST"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=working,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={HTTPException: no_route},
    )


async def file(request: Request) -> Response:
    """A file of the page."""
    kind, text = FILES[request.url.path]
    return Response(text(), headers={"content-type": kind})


@cache
def content(name: str) -> str:
    """A file of this package."""
    return files("regard.serve").joinpath("page", name).read_text(encoding="utf-8")


async def no_route(request: Request, error: Exception) -> Response:
    """The response to what no route takes, in the form of every other fault."""
    assert isinstance(error, HTTPException)
    return HTTPError(
        error.status_code, f"{request.method} {request.url.path}: {error.detail}", error.headers
    ).response()
