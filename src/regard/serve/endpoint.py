"""From a request to its answer."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.serve.clients import Places, client_of
from regard.serve.connection import Bodies, Disconnected
from regard.serve.http_errors import HTTPError, encode, openai_error
from regard.serve.operation import LINES, Operation, ServedRun, StreamForm
from regard.serve.request import Limits, RequestBody, parse
from regard.serve.worker import LEFT, Event, PendingRequest, Worker, fault

PATIENCE = 1.0
"""Seconds for sending the line that ends an answer which took too long."""


Reader = Callable[[bytes], tuple[Hashable, Operation, RequestBody]]
"""From a body to the name of an operation, which also says whose it is, the operation and its request."""


class Endpoint:
    """Answers `POST .../{run}/{operation}`, and counts the requests that have come as a whole and are not answered."""

    def __init__(
        self, runs: Mapping[str, ServedRun], worker: Worker, limits: Limits
    ) -> None:
        self.runs, self.worker, self.limits = runs, worker, limits
        self.bodies, self.places = Bodies(limits), Places(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def find() -> Reader:
            operation = self.operation(**scope["path_params"])
            # a reloaded run has other operations by the same names, which are other groups
            name = (*scope["path_params"].values(), id(operation))
            return lambda body: (
                name,
                operation,
                parse(operation.request, body, self.limits),
            )

        await self.respond(scope, receive, send, find)

    async def respond(
        self, scope: Scope, receive: Receive, send: Send, find: Callable[[], Reader]
    ) -> None:
        """Answer a request whose body `find()` reads."""
        try:
            read = find()
            if (
                Headers(scope=scope)
                .get("content-type", "")
                .partition(";")[0]
                .strip()
                .lower()
                != "application/json"
            ):
                raise HTTPError(415, "expected a body of content-type application/json")
            body, client = await self.bodies.read(scope, receive), client_of(scope)
            with self.places.place(client):
                name, operation, request = read(body)
                pending = PendingRequest(name, operation, request, client)
                self.worker.put(pending)
                await self.reply(pending, scope, receive, send)
        except HTTPError as error:
            await error.response(scope["path"])(scope, receive, send)
        except Disconnected:
            return

    def operation(self, run: str, operation: str) -> Operation:
        """The operation of a run. Raises HTTPError where there is none."""
        if run not in self.runs:
            raise HTTPError(
                404, f"no run is called {run[:80]!r}; there are {', '.join(self.runs)}"
            )
        found = self.runs[run].operations.get(operation)
        if found is None:
            known = ", ".join(self.runs[run].operations)
            raise HTTPError(
                404, f"{run} has no operation {operation[:80]!r}; it has {known}"
            )
        return found

    async def reply(
        self, pending: PendingRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send the answer whole or part by part, and notice a client that leaves."""
        disconnect = asyncio.create_task(_notice(pending, receive))
        late = fault(504, f"no answer within {self.limits.answer_seconds:g} s")
        started = False
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                event = await pending.event()
                if event is LEFT:
                    return
                if event.status != 200:
                    raise HTTPError(event.status, event.error)
                if not pending.operation.streams:
                    await Response(event.body, media_type="application/json")(
                        scope, receive, send
                    )
                    return
                started = True
                await _stream(pending, event, send)
        except TimeoutError as error:
            if not started:
                raise HTTPError(late.status, late.error) from error
            with suppress(
                TimeoutError
            ):  # a client that does not read is not waited for
                async with asyncio.timeout(PATIENCE):
                    await _send(late, send, pending.operation.form)
        finally:
            pending.gone = True
            disconnect.cancel()


async def _notice(pending: PendingRequest, receive: Receive) -> None:
    """Give the request up when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    pending.give_up()


async def _stream(pending: PendingRequest, event: Event, send: Send) -> None:
    form = pending.operation.form
    headers = [(b"content-type", form.media_type.encode("ascii"))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while event is not LEFT:
        await _send(event, send, form)
        if event.last:
            return
        event = await pending.event()


async def _send(event: Event, send: Send, form: StreamForm) -> None:
    """One part."""
    part, end = event.body, form.end if event.last and event.status == 200 else b""
    if event.status != 200:
        fault = openai_error(event.status, event.error) if form is not LINES else None
        part = encode(
            fault or {"event": "error", "status": event.status, "error": event.error}
        )
    body = form.before + part + form.after + end
    await send(
        {"type": "http.response.body", "body": body, "more_body": not event.last}
    )
