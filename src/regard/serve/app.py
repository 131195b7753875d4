"""The application: its routes, and the threads behind them."""

from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.pictures.view import script, stylesheet
from regard.serve.access_log import AccessLog
from regard.serve.comparison import with_comparison
from regard.serve.endpoint import Endpoint
from regard.serve.envelope import Envelope, unexpected
from regard.serve.guard import LOOPBACK, Guard
from regard.serve.http_errors import RETRY, HTTPError, encode
from regard.serve.metrics import CONTENT_TYPE, Metrics
from regard.serve.openai_routes import openai_routes
from regard.serve.operation import ServedRun
from regard.serve.reload import Reload, reloading
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
    runs: Sequence[ServedRun],
    limits: Limits,
    *,
    hosts: Container[str] = LOOPBACK,
    token: str | None = None,
    reload: Reload | None = None,
    log: AccessLog | None = None,
) -> Envelope:
    """An ASGI application that serves the runs under the names of `hosts`, with a `token` to clients that have it.
    SIGHUP replaces the runs with those of `reload`."""
    worker, metrics = Worker(limits.together, limits.workers), Metrics()
    endpoint = Endpoint(by_name(runs), worker, limits)
    metrics.gauge(
        "regard_requests_inside",
        "Requests that wait or are answered.",
        lambda: endpoint.places.occupied,
    )

    def replace(new: Sequence[ServedRun]) -> None:
        endpoint.runs = by_name(new)

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        with reloading(reload, replace):
            yield
        worker.stop()

    routes = [Route(path, file, methods=["GET"]) for path in FILES]
    routes += status_routes(worker, metrics)
    routes += openai_routes(endpoint)
    routes += [
        Route("/api/runs", partial(describe, endpoint), methods=["GET"]),
        Route("/api/runs/{run}/{operation}", endpoint, methods=["POST"]),
    ]
    app = Starlette(
        routes=routes,
        lifespan=working,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={HTTPException: no_route, Exception: failed},
    )
    return Envelope(app, metrics, log)


def by_name(runs: Sequence[ServedRun]) -> dict[str, ServedRun]:
    """The runs and their comparisons by their names."""
    return {run.name: run for run in with_comparison(runs)}


def status_routes(worker: Worker, metrics: Metrics) -> list[Route]:
    """What a supervisor reads: whether the server lives, whether it answers requests, and its counts."""

    async def health(request: Request) -> Response:
        return Response(encode({"status": "ok"}), media_type="application/json")

    async def ready(request: Request) -> Response:
        if not worker.working:
            return HTTPError(
                503, "no requests are answered now", {"retry-after": str(RETRY)}
            ).response()
        return Response(encode({"status": "ready"}), media_type="application/json")

    async def counts(request: Request) -> Response:
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    return [
        Route("/health", health, methods=["GET"]),
        Route("/ready", ready, methods=["GET"]),
        Route("/metrics", counts, methods=["GET"]),
    ]


async def describe(endpoint: Endpoint, request: Request) -> Response:
    """The runs, and what the server accepts."""
    about = {
        "version": VERSION,
        "limits": vars(endpoint.limits),
        "inside": endpoint.places.occupied,
    }
    body = encode(about | {"runs": [run.to_json() for run in endpoint.runs.values()]})
    return Response(body, media_type="application/json")


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
        error.status_code,
        f"{request.method} {request.url.path}: {error.detail}",
        error.headers,
    ).response(request.url.path)


async def failed(request: Request, error: Exception) -> Response:
    """The response to a request that fails in a part of ours."""
    return unexpected(error).response(request.url.path)
