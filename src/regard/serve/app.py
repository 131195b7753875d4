"""The application: its routes, and how a request gets its answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.pictures.page import build_script, stylesheet
from regard.serve.middleware import (
    LOOPBACK,
    AccessMiddleware,
    HostMiddleware,
    MetricsMiddleware,
)
from regard.serve.openai import BODIES, find_operation
from regard.serve.requests import (
    HTTPError,
    RequestBody,
    ServerLimits,
    busy,
    describe_fault,
    encode,
    json_response,
    openai_error,
    parse,
)
from regard.serve.worker import (
    LINES,
    Event,
    Operation,
    PendingRequest,
    ServedRun,
    StreamForm,
    Worker,
)
from regard.version import VERSION

FILES = (
    "",
    "page.css",
    "page.js",
    "answer.js",
    "client.js",
    "cuts.js",
    "view.css",
    "view.js",
)
"""Every file that is ever sent, by its path; so no path leads elsewhere."""
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
MAX_DISCARDED = 32 << 20
"""Bytes of a body that is too long and is read nevertheless: a client that sends first
and reads later would otherwise see a broken connection instead of the response."""
END_SECONDS = 1.0
"""Seconds for sending the line that ends an answer which took too long."""


def build_app(
    runs: Sequence[ServedRun],
    limits: ServerLimits,
    *,
    hosts: Sequence[str] = LOOPBACK,
    any_address: bool = False,
    token: str | None = None,
) -> ASGIApp:
    """Build the ASGI application that serves runs.

    Args:
        limits: What is accepted.
        hosts: The host names of the server.
        any_address: Whether requests to any literal address are accepted too.
        token: The token that requests need, if any.
    """
    worker = Worker(limits.batch, limits.workers)
    endpoint = Endpoint({run.name: run for run in runs}, worker, limits)

    @asynccontextmanager
    async def run_worker(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    async def check_health(request: Request) -> Response:
        return json_response({"status": "ok"})

    async def check_readiness(request: Request) -> Response:
        if not worker.is_working:
            raise busy("no requests are being answered")
        return json_response({"status": "ready"})

    async def send_metrics(request: Request) -> Response:
        return counted.response()

    routes = [Route(f"/{name}", send_file) for name in FILES]
    routes.append(Route("/metrics", send_metrics))
    routes += endpoint.routes()
    protection = [
        Middleware(HostMiddleware, hosts=hosts, any_address=any_address),
        Middleware(AccessMiddleware, token=token),
    ]
    app = Starlette(
        routes=[
            # load balancers name no host and have no token
            Route("/health", check_health),
            Route("/ready", check_readiness),
            Mount("/", routes=routes, middleware=protection),
        ],
        lifespan=run_worker,
        exception_handlers=dict.fromkeys(
            (HTTPError, HTTPException, Exception), answer_error
        ),
    )
    paths = ["/health", "/ready", *(route.path for route in routes)]
    for run in runs:
        paths += [f"/api/runs/{run.name}/{operation}" for operation in run.operations]
    counted = MetricsMiddleware(app, paths, lambda: endpoint.active)
    return counted


async def send_file(request: Request) -> Response:
    """Send a file of the page."""
    name = request.url.path[1:] or "index.html"
    return Response(read_file(name), media_type=MEDIA_TYPES[name.partition(".")[2]])


@cache
def read_file(name: str) -> str:
    """Read a file of the page; those of its view are generated."""
    generators = {"view.css": stylesheet, "view.js": build_script}
    if name in generators:
        return generators[name]()
    return files("regard.serve").joinpath("page", name).read_text(encoding="utf-8")


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a request that is refused, that no route takes, or that failed."""
    path = request.url.path
    if isinstance(error, HTTPException):
        message = f"{request.method} {path}: {error.detail}"
        error = HTTPError(error.status_code, message, error.headers)
    if not isinstance(error, HTTPError):
        error = describe_fault(error)
    return error.response(path)


class Endpoint:
    """Answers requests to runs, and counts those that are not answered yet.

    Args:
        runs: The runs by their names.
        worker: Computes the answers.
        limits: What is accepted.
    """

    def __init__(
        self, runs: Mapping[str, ServedRun], worker: Worker, limits: ServerLimits
    ) -> None:
        self.runs = runs
        self.worker = worker
        self.limits = limits
        # requests that are answered, and bytes of bodies that are received
        self.active = self.bytes = 0
        self.started = int(time.time())

    def routes(self) -> list[Route]:
        """Return the routes of the runs, of our interface and of OpenAI's."""
        operation, post = "/api/runs/{run}/{operation}", ["POST"]
        return [
            Route("/api/runs", self.describe),
            Route(operation, self.answer_operation, methods=post),
            Route("/v1/models", self.list_models),
            *(Route(f"/v1/{kind}", self.answer_model, methods=post) for kind in BODIES),
        ]

    async def describe(self, request: Request) -> Response:
        """Describe the runs, and what the server accepts."""
        description = {
            "version": VERSION,
            "limits": vars(self.limits),
            "active": self.active,
            "runs": [run.to_json() for run in self.runs.values()],
        }
        return json_response(description)

    async def list_models(self, request: Request) -> Response:
        """List the runs with operations of OpenAI's interface."""
        common = {"object": "model", "created": self.started, "owned_by": "regard"}
        models = [{"id": run.name} | common for run in self.runs.values() if run.openai]
        return json_response({"object": "list", "data": models})

    async def answer_operation(self, request: Request) -> ASGIApp:
        """Answer `POST /api/runs/{run}/{operation}`."""
        name, kind = request.path_params["run"], request.path_params["operation"]
        if name not in self.runs:
            names = ", ".join(self.runs)
            raise HTTPError(404, f"no run is called {name[:80]!r}; choose {names}")
        operations = self.runs[name].operations
        operation = operations.get(kind)
        if operation is None:
            message = f"{name} has no operation {kind[:80]!r}; it has "
            raise HTTPError(404, message + ", ".join(operations))
        content = await self.read_body(request)
        body = parse(operation.request, content, self.limits)
        return self.respond((name, kind), operation, body)

    async def answer_model(self, request: Request) -> ASGIApp:
        """Answer `POST /v1/...` by the run that the body names as its `model`."""
        kind = request.url.path.rpartition("/")[2]
        body = parse(BODIES[kind], await self.read_body(request), self.limits)
        run, name = find_operation(self.runs, kind, body)
        return self.respond((run.name, "openai", name), run.openai[name], body)

    async def read_body(self, request: Request) -> bytes:
        """Read a body of JSON.

        Raises:
            HTTPError: It is no JSON, too long or too slow, others take all memory, or
                the client has left.
        """
        headers, limits = request.headers, self.limits
        content_type = headers.get("content-type", "").partition(";")[0]
        if content_type.strip().lower() != "application/json":
            raise HTTPError(415, "expected the content-type application/json")
        body, size, closing = bytearray(), 0, {"connection": "close"}
        message = f"the body is too long; this server accepts {limits.body} bytes"
        too_long = HTTPError(413, message, closing)
        length = headers.get("content-length", "0")
        # a client that expects "100 Continue" has not sent anything
        limit = limits.body if "expect" in headers else MAX_DISCARDED
        if length.isdecimal() and int(length) > limit:
            raise too_long
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > MAX_DISCARDED:
                        break
                    if size <= limits.body:
                        body += part
                        self.bytes += len(part)
                    if self.bytes > limits.bodies:
                        raise busy("too many requests are arriving; try again")
        except TimeoutError as error:
            message = f"the body took longer than {limits.body_seconds:g} s to arrive"
            raise HTTPError(408, message, closing) from error
        except ClientDisconnect as error:
            raise HTTPError(499, "the client has left") from error
        finally:
            self.bytes -= len(body)
        if size > limits.body:
            raise too_long
        return bytes(body)

    def respond(
        self, name: Hashable, operation: Operation, body: RequestBody
    ) -> ASGIApp:
        """Put a request into the queue; return what sends its answer."""
        if self.active >= self.limits.requests:
            raise busy(f"{self.active} requests are being answered; try again")
        pending = PendingRequest(name, operation, body)
        self.active += 1
        self.worker.put(pending)
        return partial(self.reply, pending)

    async def reply(
        self, pending: PendingRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send an answer at once or part by part, unless its client leaves."""
        disconnect = asyncio.create_task(_wait_for_disconnect(pending, receive))
        seconds, form = self.limits.answer_seconds, pending.operation.form
        late = Event(b"", True, 504, f"no answer within {seconds:g} s")
        is_started = False
        try:
            async with asyncio.timeout(seconds):
                event = await pending.next_event()
                if event.status != 200:
                    raise HTTPError(event.status, event.error)
                if not pending.operation.streams:
                    response = Response(event.body, media_type="application/json")
                    return await response(scope, receive, send)
                is_started = True
                headers = [(b"content-type", form.media_type.encode())]
                start = {"type": "http.response.start", "status": 200}
                await send(start | {"headers": headers})
                await _send_part(event, send, form)
                while not event.last:
                    event = await pending.next_event()
                    await _send_part(event, send, form)
        except TimeoutError as error:
            if not is_started:
                raise HTTPError(late.status, late.error) from error
            # a client that does not read is not waited for
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await _send_part(late, send, form)
        finally:
            self.active -= 1
            pending.gone = True
            disconnect.cancel()


async def _wait_for_disconnect(pending: PendingRequest, receive: Receive) -> None:
    """Cancel the request when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    pending.cancel()


async def _send_part(event: Event, send: Send, form: StreamForm) -> None:
    part, end = event.body, form.end if event.last else b""
    if event.status != 200:
        error = openai_error(event.status, event.error)
        if form is LINES:
            error = {"event": "error", "status": event.status, "error": event.error}
        part, end = encode(error), b""
    body = form.before + part + form.after + end
    message = {"type": "http.response.body", "body": body}
    await send(message | {"more_body": not event.last})
