"""The application: its routes, and how a request gets its answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from regard.pictures.page import build_script, stylesheet
from regard.serve.middleware import (
    LOOPBACK,
    AccessMiddleware,
    HostMiddleware,
    Metrics,
    TelemetryMiddleware,
)
from regard.serve.openai import BODIES, Completion, find_model, find_operation
from regard.serve.requests import (
    HTTPError,
    Limits,
    RequestBody,
    busy,
    encode,
    json_response,
    openai_error,
    parse,
    unexpected,
)
from regard.serve.runs import add_comparisons
from regard.serve.worker import (
    CLIENT_GONE,
    LINES,
    Event,
    Operation,
    PendingRequest,
    ServedRun,
    StreamForm,
    Worker,
)
from regard.version import VERSION

JAVASCRIPT, CSS = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
FILES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "/": ("text/html; charset=utf-8", lambda: read_resource("index.html")),
    "/page.css": (CSS, lambda: read_resource("page.css")),
    "/page.js": (JAVASCRIPT, lambda: read_resource("page.js")),
    "/answer.js": (JAVASCRIPT, lambda: read_resource("answer.js")),
    "/client.js": (JAVASCRIPT, lambda: read_resource("client.js")),
    "/view.css": (CSS, stylesheet),
    "/view.js": (JAVASCRIPT, build_script),
}
"""Every file that is ever sent, by its path; so no path leads elsewhere."""
PATHS = (*FILES, "/health", "/ready", "/metrics", "/api/runs", "/v1/models")
"""The paths without parameters."""
DISCARD_SECONDS, DISCARD_BYTES = 1.0, 32 << 20
"""How much of a refused body is read: a client that sends first and reads later would
otherwise see a broken connection instead of the response."""
END_SECONDS = 1.0
"""Seconds for sending the line that ends an answer which took too long."""
ReadBody = Callable[[bytes], tuple[Hashable, Operation, RequestBody]]
"""Parses a body into the name of an operation of a run, the operation, the request."""


def build_app(
    runs: Sequence[ServedRun],
    limits: Limits,
    *,
    hosts: Sequence[str] = LOOPBACK,
    any_address: bool = False,
    token: str | None = None,
) -> TelemetryMiddleware:
    """Build the ASGI application that serves runs.

    Args:
        runs: The runs.
        limits: What is accepted.
        hosts: The host names of the server.
        any_address: Whether requests to any literal address are accepted too.
        token: The token that requests need, if any.
    """
    worker = Worker(limits.batch, limits.workers)
    loaded = {run.name: run for run in add_comparisons(runs)}
    endpoint = Endpoint(loaded, worker, limits)
    metrics = Metrics(lambda: endpoint.active)

    @asynccontextmanager
    async def run_worker(app: Starlette) -> AsyncIterator[None]:
        worker.start()
        yield
        worker.stop()

    async def send_metrics(request: Request) -> Response:
        return metrics.response()

    routes = [Route(path, send_file) for path in FILES]
    routes.append(Route("/metrics", send_metrics))
    routes += endpoint.routes()
    protected = Mount(
        "/",
        routes=routes,
        middleware=[
            Middleware(HostMiddleware, hosts=hosts, any_address=any_address),
            Middleware(AccessMiddleware, token=token),
        ],
    )
    app = Starlette(
        # load balancers name no host and have no token
        routes=[*probe_routes(worker), protected],
        lifespan=run_worker,
        exception_handlers={HTTPException: refuse_path, Exception: answer_failure},
    )
    paths = (*PATHS, *(f"/v1/{kind}" for kind in BODIES))
    return TelemetryMiddleware(app, metrics, paths)


def probe_routes(worker: Worker) -> list[Route]:
    """Return the routes that a supervisor asks."""

    async def check_health(request: Request) -> Response:
        return json_response({"status": "ok"})

    async def check_readiness(request: Request) -> Response:
        if not worker.is_working:
            return busy("no requests are being answered").response()
        return json_response({"status": "ready"})

    return [Route("/health", check_health), Route("/ready", check_readiness)]


async def send_file(request: Request) -> Response:
    """Send a file of the page."""
    content_type, read = FILES[request.url.path]
    return Response(read(), headers={"content-type": content_type})


@cache
def read_resource(name: str) -> str:
    """Read a file of this package."""
    return files("regard.serve").joinpath("page", name).read_text(encoding="utf-8")


async def refuse_path(request: Request, error: Exception) -> Response:
    """Answer a request that no route takes, in the form of other errors."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return HTTPError(error.status_code, message, error.headers).response(
        request.url.path
    )


async def answer_failure(request: Request, error: Exception) -> Response:
    """Answer a request at which the server failed."""
    return unexpected(error).response(request.url.path)


class ClientDisconnected(Exception):
    """The client has left before its request was complete."""


class BodyReader:
    """Reads bodies within limits of size, time and memory."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.bytes = limits, 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Read a body.

        Raises:
            HTTPError: It is too long or too slow, or others take all memory.
            ClientDisconnected: The client has left.
        """
        length = Headers(scope=scope).get("content-length", "")
        body, more = bytearray(), True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                self._check(int(length) if length.isdecimal() else 0)
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnected
                    part, more = message.get("body", b""), message.get("more_body")
                    body += part
                    self.bytes += len(part)
                    self._check(len(body))
        except TimeoutError as error:
            seconds = self.limits.body_seconds
            raise HTTPError(
                408,
                f"the body took longer than {seconds:g} s to arrive",
                {"connection": "close"},
            ) from error
        except HTTPError as error:
            if more and "expect" not in Headers(scope=scope):
                await _discard(receive)
            error.headers["connection"] = "close"
            raise
        finally:
            self.bytes -= len(body)
        return bytes(body)

    def _check(self, size: int) -> None:
        if size > self.limits.body:
            limit = self.limits.body
            raise HTTPError(
                413, f"the body is too long; this server accepts {limit} bytes"
            )
        if self.bytes > self.limits.bodies:
            raise busy("too many requests are arriving; try again")


async def _discard(receive: Receive) -> None:
    """Read the rest of a refused body, within limits."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while more and size < DISCARD_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


class Endpoint:
    """Answers requests to runs, and counts those that are not answered yet.

    Args:
        runs: The runs by their names.
        worker: Computes the answers.
        limits: What is accepted.
    """

    def __init__(
        self, runs: Mapping[str, ServedRun], worker: Worker, limits: Limits
    ) -> None:
        self.runs, self.worker, self.limits = runs, worker, limits
        self.bodies, self.active, self.started = BodyReader(limits), 0, int(time.time())

    def routes(self) -> list[Route]:
        """Return the routes of the runs, of our interface and of OpenAI's."""
        answer, complete = self.answer_operation, self.answer_model
        return [
            Route("/api/runs", self.describe),
            Route("/api/runs/{run}/{operation}", Handler(answer), methods=["POST"]),
            Route("/v1/models", self.list_models),
            Route("/v1/models/{model}", self.describe_model),
            *(
                Route(f"/v1/{kind}", Handler(complete), methods=["POST"])
                for kind in BODIES
            ),
        ]

    async def describe(self, request: Request) -> Response:
        """Describe the runs, and what the server accepts."""
        return json_response(
            {
                "version": VERSION,
                "limits": vars(self.limits),
                "active": self.active,
                "runs": [run.to_json() for run in self.runs.values()],
            }
        )

    async def list_models(self, request: Request) -> Response:
        """List the runs with operations of OpenAI's interface."""
        models = [self._model(run) for run in self.runs.values() if run.openai]
        return json_response({"object": "list", "data": models})

    async def describe_model(self, request: Request) -> Response:
        """Describe one run in OpenAI's form."""
        try:
            run = find_model(self.runs, request.path_params["model"])
        except HTTPError as error:
            return error.response(request.url.path)
        return json_response(self._model(run))

    def _model(self, run: ServedRun) -> dict[str, Any]:
        return {
            "id": run.name,
            "object": "model",
            "created": self.started,
            "owned_by": "regard",
        }

    async def answer_operation(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer `POST /api/runs/{run}/{operation}`."""
        names = scope["path_params"]
        try:
            operation = self.find(**names)
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
            return

        def read(body: bytes) -> tuple[Hashable, Operation, RequestBody]:
            request = parse(operation.request, body, self.limits)
            return tuple(names.values()), operation, request

        await self.respond(scope, receive, send, read)

    async def answer_model(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer `POST /v1/...` by the run that the body names as its `model`."""
        kind = scope["path"].rpartition("/")[2]

        def read(body: bytes) -> tuple[Hashable, Operation, RequestBody]:
            request = parse(BODIES[kind], body, self.limits)
            if isinstance(request, Completion):
                request.check(self.limits)
            run = find_model(self.runs, request.model)
            name = find_operation(run, kind, request)
            return (run.name, "openai", name), run.openai[name], request

        await self.respond(scope, receive, send, read)

    def find(self, run: str, operation: str) -> Operation:
        """Return the operation of a run.

        Raises:
            HTTPError: 404, there is none.
        """
        if run not in self.runs:
            names = ", ".join(self.runs)
            raise HTTPError(404, f"no run is called {run[:80]!r}; choose {names}")
        operations = self.runs[run].operations
        if operation not in operations:
            names = ", ".join(operations)
            raise HTTPError(
                404, f"{run} has no operation {operation[:80]!r}; it has {names}"
            )
        return operations[operation]

    async def respond(
        self, scope: Scope, receive: Receive, send: Send, read: ReadBody
    ) -> None:
        """Read a body, wait for the worker, and send its answer."""
        try:
            content_type = Headers(scope=scope).get("content-type", "")
            if content_type.partition(";")[0].strip().lower() != "application/json":
                raise HTTPError(415, "expected the content-type application/json")
            body = await self.bodies.read(scope, receive)
            if self.active >= self.limits.requests:
                raise busy(f"{self.active} requests are being answered; try again")
            self.active += 1
            try:
                pending = PendingRequest(*read(body))
                self.worker.put(pending)
                await self.reply(pending, scope, receive, send)
            finally:
                self.active -= 1
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
        except ClientDisconnected:
            return

    async def reply(
        self, pending: PendingRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send an answer at once or part by part, unless its client leaves."""
        disconnect = asyncio.create_task(_wait_for_disconnect(pending, receive))
        seconds, started = self.limits.answer_seconds, False
        late = Event(b"", True, 504, f"no answer within {seconds:g} s")
        try:
            async with asyncio.timeout(seconds):
                event = await pending.next_event()
                if event is CLIENT_GONE:
                    return
                if event.status != 200:
                    raise HTTPError(event.status, event.error)
                if pending.operation.streams:
                    started = True
                    await _stream(pending, event, send)
                else:
                    response = Response(event.body, media_type="application/json")
                    await response(scope, receive, send)
        except TimeoutError as error:
            if not started:
                raise HTTPError(late.status, late.error) from error
            # a client that does not read is not waited for
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await _send_part(late, send, pending.operation.form)
        finally:
            pending.gone = True
            disconnect.cancel()


class Handler:
    """An ASGI application made of one function, as Starlette's routes need it."""

    def __init__(self, handle: Callable[[Scope, Receive, Send], Any]) -> None:
        self.handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.handle(scope, receive, send)


async def _wait_for_disconnect(pending: PendingRequest, receive: Receive) -> None:
    """Cancel the request when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    pending.cancel()


async def _stream(pending: PendingRequest, event: Event, send: Send) -> None:
    form = pending.operation.form
    headers = [(b"content-type", form.media_type.encode("ascii"))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while event is not CLIENT_GONE:
        await _send_part(event, send, form)
        if event.last:
            return
        event = await pending.next_event()


async def _send_part(event: Event, send: Send, form: StreamForm) -> None:
    part, end = event.body, b""
    if event.status != 200:
        error: dict[str, Any] = {"event": "error"}
        error |= {"status": event.status, "error": event.error}
        if form is not LINES:
            error = openai_error(event.status, event.error)
        part = encode(error)
    elif event.last:
        end = form.end
    body = form.before + part + form.after + end
    await send(
        {"type": "http.response.body", "body": body, "more_body": not event.last}
    )
