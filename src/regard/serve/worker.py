"""The threads that use the models, and the queue of requests before them."""

import asyncio
import contextvars
import copy
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import nn

from regard.errors import RunError
from regard.serve.requests import Json, RequestBody, describe_fault, encode
from regard.tasks.run import Run
from regard.work import Cancelled, cancellable

R = TypeVar("R", bound=Run[Any, Any])
logger = logging.getLogger(__name__)
MAX_UNREAD = 8 << 20
"""Bytes of an answer that may wait for a client to read them."""


def share_cores(workers: int) -> None:
    """Divide the cores among workers; one of several may be idle."""
    torch.set_num_threads(max(1, torch.get_num_threads() // max(1, workers - 1)))


class Replicas(Generic[R]):
    """Copies of a run, one per thread, which share their weights but not their hooks."""

    def __init__(self, run: R) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._local = threading.local()

    @property
    def current(self) -> R:
        """The copy of this thread."""
        run: R | None = getattr(self._local, "run", None)
        if run is None:
            with self._lock:
                run = self._local.run = copy_modules(self.run)
        return run


def copy_modules(run: R) -> R:
    """Copy a run and its modules; parameters, buffers and present hooks are shared."""
    replica, memo = copy.copy(run), dict[int, Any]()
    for name, module in vars(run).items():
        if isinstance(module, nn.Module):
            shared: list[Any] = [*module.parameters(), *module.buffers()]
            for part in module.modules():
                shared += part._forward_hooks.values()
                shared += part._forward_pre_hooks.values()
            memo |= {id(item): item for item in shared}
            setattr(replica, name, copy.deepcopy(module, memo))
    return replica


IsActive = Callable[[int], bool]
"""Whether a client still waits for the answer to the request of this number."""


class ResponsePart(NamedTuple):
    """Part of the response to one request of a batch."""

    number: int
    data: Json
    last: bool = True


class StreamForm(NamedTuple):
    """How the parts of a streamed response are separated; `end` follows the last."""

    media_type: str
    before: bytes
    after: bytes
    end: bytes = b""


Respond = Callable[[Sequence[Any], IsActive], Iterator[ResponsePart]]
LINES = StreamForm("application/x-ndjson; charset=utf-8", b"", b"\n")


@dataclass(frozen=True)
class Operation:
    """How requests of one kind are answered.

    Attributes:
        request: The type of their bodies.
        respond: Yields the parts of the responses to a batch of one group.
        group: Requests with equal groups may be one batch. Default: each alone.
        streams: Whether parts are sent as they come, in a `form`.
    """

    request: type[RequestBody]
    respond: Respond
    group: Callable[[Any], Hashable] = id
    streams: bool = False
    form: StreamForm = LINES


def respond_at_once(
    answer_batch: Callable[[Sequence[Any]], Sequence[Json]],
) -> Respond:
    """Return the `respond` of an operation whose responses come together."""

    def respond(requests: Sequence[Any], active: IsActive) -> Iterator[ResponsePart]:
        for number, data in enumerate(answer_batch(requests)):
            yield ResponsePart(number, data)

    return respond


Operations = dict[str, Operation]
"""Operations by their names."""


@dataclass(frozen=True)
class ServedRun:
    """A run that is served: what the page shows of it, and its operations by name."""

    name: str
    about: Mapping[str, Any]
    operations: Operations
    openai: Operations = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the run as JSON values."""
        return {"name": self.name, **self.about, "operations": list(self.operations)}


class Event(NamedTuple):
    """Part of an answer; with another status than 200, why there is none."""

    body: bytes
    last: bool
    status: int = 200
    error: str = ""


CLIENT_GONE = Event(
    b"",
    True,
    499,
    "the client has left",
)
READ_TIMEOUT = Event(
    b"",
    True,
    408,
    "the answer was not read in time",
)


class PendingRequest:
    """A request that is read in the event loop and answered in a worker's thread.

    Args:
        name: Identifies the operation of one run.
        operation: What to do.
        request: The body.
    """

    def __init__(
        self, name: Hashable, operation: Operation, request: RequestBody
    ) -> None:
        self.operation = operation
        self.request = request
        self.gone = False
        self.group = (name, operation.group(request))
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # bytes by the thread that writes each number: waiting for the loop counts too
        self._sent = self._taken = 0

    @property
    def is_active(self) -> bool:
        """Whether the answer is still wanted, and read as fast as it is computed."""
        return not self.gone and self._sent - self._taken <= MAX_UNREAD

    def put(self, event: Event) -> None:
        """Send an event from the worker's thread."""
        self._sent += len(event.body)
        # a server that was told to quit at once has closed its loop
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next_event(self) -> Event:
        """Wait for the next event, in the loop."""
        event = await self._events.get()
        self._taken += len(event.body)
        return event

    def cancel(self) -> None:
        """Give the request up, in the loop: nobody waits for its answer."""
        self.gone = True
        self._events.put_nowait(CLIENT_GONE)


class Worker:
    """Threads that answer requests in batches, the oldest request first.

    Args:
        batch: The most requests of one batch.
        threads: The number of threads.
    """

    def __init__(self, batch: int, threads: int = 1) -> None:
        self.batch = batch
        self._stopping = False
        self._waiting: list[PendingRequest] = []
        self._changed = threading.Condition()
        self._threads = []
        for _ in range(threads):
            # a copy of the context, in which --debug is set
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(self._work,), daemon=True)
            self._threads.append(thread)

    @property
    def is_working(self) -> bool:
        """Whether requests are being answered."""
        is_alive = all(thread.is_alive() for thread in self._threads)
        return is_alive and not self._stopping

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until every request has been answered or given up, then stop."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def put(self, request: PendingRequest) -> None:
        """Append a request to the queue."""
        with self._changed:
            self._waiting.append(request)
            self._changed.notify()

    def _work(self) -> None:
        while batch := self.take_batch():
            answer(batch)

    def take_batch(self) -> list[PendingRequest]:
        """Wait for requests of one group; return none when the worker stops."""
        with self._changed:
            self._changed.wait_for(self._is_ready)
            waiting = self._waiting
            batch = [item for item in waiting if item.group == waiting[0].group]
            batch = batch[: self.batch]
            self._waiting = [item for item in waiting if item not in batch]
            return batch

    def _is_ready(self) -> bool:
        self._waiting = [item for item in self._waiting if not item.gone]
        return bool(self._waiting) or self._stopping


def answer(batch: Sequence[PendingRequest]) -> None:
    """Answer the requests of a batch, or report why there is no answer.

    A batch that fails before its first part is answered one request at a time, so that
    no request fails with another's error. Once no client waits, the work ends at the
    next `checkpoint()`.
    """
    waiting = dict(enumerate(batch))
    started = False
    requests = [pending.request for pending in batch]

    def is_active(number: int) -> bool:
        return batch[number].is_active

    event = READ_TIMEOUT
    try:
        with suppress(Cancelled), cancellable(lambda: any(map(is_active, waiting))):
            respond = batch[0].operation.respond
            for number, data, last in respond(requests, is_active):
                started = True
                batch[number].put(Event(encode(data), last))
                if last:
                    del waiting[number]
    # a panic of a native library is a BaseException, and must not end the thread
    except BaseException as error:
        if not started and len(batch) > 1:
            for pending in batch:
                answer([pending])
            return
        event = describe_failure(error)
    for pending in waiting.values():
        pending.put(event)


def describe_failure(error: BaseException) -> Event:
    """Return the event of a failure; only the log has the details of a server's fault."""
    message = " ".join(str(error).split())
    if isinstance(
        error, RunError | FloatingPointError
    ):  # of a run, though some are ValueErrors
        return Event(b"", True, 500, message)
    if isinstance(error, ValueError):
        return Event(b"", True, 422, message)
    logger.error("a request failed", exc_info=error)
    return Event(b"", True, 500, str(describe_fault(error)))
