"""From a request to its answer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.serve.bodies import Bodies, Left
from regard.serve.http_errors import RETRY, Refused, encoded
from regard.serve.limits import Limits
from regard.serve.operation import Operation, Served
from regard.serve.pending import LEFT, Event, PendingRequest, fault
from regard.serve.request import parse
from regard.serve.worker import Worker

PATIENCE = 1.0
"""Seconds for the line that ends an answer which took too long."""


class Asking:
    """Answers `POST .../{run}/{operation}`, and counts who is inside: those whose request has come as a whole."""

    def __init__(self, runs: Mapping[str, Served], worker: Worker, limits: Limits) -> None:
        self.runs, self.worker, self.limits = runs, worker, limits
        self.bodies, self.inside = Bodies(limits), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            operation = self.operation(**scope["path_params"])
            if Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise Refused(415, "expected a body of content-type application/json")
            ask = parse(operation.asks, await self.bodies.read(scope, receive), self.limits)
            async with self.place():
                pending = PendingRequest(tuple(scope["path_params"].values()), operation, ask)
                self.worker.put(pending)
                await self.reply(pending, scope, receive, send)
        except Refused as refused:
            await refused.response()(scope, receive, send)
        except Left:
            return

    def operation(self, run: str, operation: str) -> Operation:
        """Raises Refused where there is none."""
        if run not in self.runs:
            raise Refused(404, f"no run is called {run[:80]!r}; there are {', '.join(self.runs)}")
        found = self.runs[run].operations.get(operation)
        if found is None:
            known = ", ".join(self.runs[run].operations)
            raise Refused(404, f"{run} has no operation {operation[:80]!r}; it has {known}")
        return found

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the places inside. Raises Refused where all are taken."""
        if self.inside >= self.limits.inside:
            raise Refused(503, f"{self.inside} requests are inside; try again", {"retry-after": str(RETRY)})
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def reply(self, pending: PendingRequest, scope: Scope, receive: Receive, send: Send) -> None:
        """Whole, or part by part; a client that leaves is noticed meanwhile."""
        leaving = asyncio.create_task(_notice(pending, receive))
        late = fault(504, f"no answer within {self.limits.answer_seconds:g} s")
        started = False
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                event = await pending.event()
                if event is LEFT:
                    return
                if event.status != 200:
                    raise Refused(event.status, event.error)
                if not pending.operation.streams:
                    await Response(event.body, media_type="application/json")(scope, receive, send)
                    return
                started = True
                await _stream(pending, event, send)
        except TimeoutError as error:
            if not started:
                raise Refused(late.status, late.error) from error
            with suppress(TimeoutError):  # who does not read is not waited for
                async with asyncio.timeout(PATIENCE):
                    await _send(late, send)
        finally:
            pending.gone = True
            leaving.cancel()


async def _notice(pending: PendingRequest, receive: Receive) -> None:
    """Give the pending up when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    pending.give_up()


async def _stream(pending: PendingRequest, event: Event, send: Send) -> None:
    headers = [(b"content-type", b"application/x-ndjson; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while event is not LEFT:
        await _send(event, send)
        if event.last:
            return
        event = await pending.event()


async def _send(event: Event, send: Send) -> None:
    """One line."""
    line = event.body
    if event.status != 200:
        line = encoded({"event": "error", "status": event.status, "error": event.error})
    await send({"type": "http.response.body", "body": line + b"\n", "more_body": not event.last})
