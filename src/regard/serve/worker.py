"""The threads that use the models, and the queue of requests before them."""

import asyncio
import contextvars
import copy
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import nn

from regard.errors import RunError
from regard.serve.requests import RequestBody, encode, unexpected
from regard.tasks.run import Run
from regard.work import Cancelled, cancellable

R = TypeVar("R", bound=Run[Any, Any])
logger = logging.getLogger(__name__)
MAX_UNREAD = 8 << 20
"""Bytes of an answer that may wait for a client to read them."""
DEFAULT_WORKERS = 2, 8
"""The least and the most workers by default; with two, one is free beside a long
one."""
PATIENCE = 0.25
"""Seconds that requests wait to join the next batch of a model that is busy."""


def share_cores(workers: int | None) -> int:
    """Return the number of workers, by default one per core, and divide the cores."""
    cores = torch.get_num_threads()
    if workers is None:
        workers = min(max(cores, DEFAULT_WORKERS[0]), DEFAULT_WORKERS[1])
    torch.set_num_threads(max(1, cores // max(1, workers - 1)))
    return workers


class Replicas(Generic[R]):
    """Copies of a run, one per thread, which share their weights but not their hooks."""

    def __init__(self, run: R) -> None:
        self.run, self._lock, self._local = run, threading.Lock(), threading.local()

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
    modules = {
        name: value for name, value in vars(run).items() if isinstance(value, nn.Module)
    }
    memo: dict[int, Any] = {}
    for module in modules.values():
        shared: list[Any] = [*module.parameters(), *module.buffers()]
        for part in module.modules():
            shared += part._forward_hooks.values()
            shared += part._forward_pre_hooks.values()
        memo |= {id(item): item for item in shared}
    replica = copy.copy(run)
    vars(replica).update(
        {name: copy.deepcopy(module, memo) for name, module in modules.items()}
    )
    return replica


IsActive = Callable[[int], bool]
"""Whether a client still waits for the answer to the request of this number."""


class ResponsePart(NamedTuple):
    """Part of the response to one request of a batch."""

    number: int
    data: dict[str, Any]
    last: bool = True


class StreamForm(NamedTuple):
    """How the parts of a streamed response are separated; `end` follows the last."""

    media_type: str
    before: bytes
    after: bytes
    end: bytes = b""


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
    respond: Callable[[Sequence[Any], IsActive], Iterator[ResponsePart]]
    group: Callable[[Any], Hashable] = id
    streams: bool = False
    form: StreamForm = LINES


def respond_at_once(
    answer_batch: Callable[[Sequence[Any]], Sequence[dict[str, Any]]],
) -> Callable[[Sequence[Any], IsActive], Iterator[ResponsePart]]:
    """Return the `respond` of an operation whose responses come together."""

    def respond(requests: Sequence[Any], active: IsActive) -> Iterator[ResponsePart]:
        for number, data in enumerate(answer_batch(requests)):
            yield ResponsePart(number, data)

    return respond


@dataclass(frozen=True)
class ServedRun:
    """A run that is served: what the page shows of it, and its operations by name."""

    name: str
    about: Mapping[str, Any]
    operations: Mapping[str, Operation]
    openai: Mapping[str, Operation] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values."""
        return {"name": self.name, **self.about, "operations": list(self.operations)}


class Event(NamedTuple):
    """Part of an answer; with another status than 200, why there is none."""

    body: bytes
    last: bool
    status: int = 200
    error: str = ""


CLIENT_GONE = Event(b"", True, 499, "the client has left")
READ_TIMEOUT = Event(b"", True, 408, "the answer was not read in time")


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
        self.operation, self.request, self.gone = operation, request, False
        self.group = (name, operation.group(request))
        # bytes; each counter is changed by one thread only
        self._bytes_put = self._bytes_read = 0
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    @property
    def is_slow(self) -> bool:
        """Whether the client reads too slowly for the server to wait."""
        return self._bytes_put - self._bytes_read > MAX_UNREAD

    @property
    def is_active(self) -> bool:
        """Whether the answer is still wanted."""
        return not self.gone and not self.is_slow

    def put(self, event: Event) -> None:
        """Send an event from the worker's thread."""
        self._bytes_put += len(event.body)
        # a server that was told to quit at once has closed its loop
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next_event(self) -> Event:
        """Wait for the next event, in the loop."""
        event = await self._events.get()
        self._bytes_read += len(event.body)
        return event

    def cancel(self) -> None:
        """Give the request up, in the loop: nobody waits for its answer."""
        self.gone = True
        self._events.put_nowait(CLIENT_GONE)


class BatchQueue:
    """Waiting requests, taken as batches of one group, the oldest first.

    While a batch of a group is answered, its other requests wait for `PATIENCE`
    seconds to become one batch: two batches of one model at once take longer than one
    after the other. It is not thread-safe; its owner holds a lock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._waiting: list[PendingRequest] = []
        self._started: dict[Hashable, list[float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, request: PendingRequest) -> None:
        """Append a request."""
        self._waiting.append(request)

    def take(self, size: int) -> list[PendingRequest]:
        """Return the next batch of at most `size` requests; empty if none is ready."""
        self._waiting = [request for request in self._waiting if not request.gone]
        for first in self._waiting:
            if not self._is_busy(first.group):
                break
        else:
            return []
        batch = [item for item in self._waiting if item.group == first.group][:size]
        self._waiting = [item for item in self._waiting if item not in batch]
        self._started.setdefault(first.group, []).append(self.clock())
        return batch

    def finish(self, batch: Sequence[PendingRequest]) -> None:
        """Forget a batch that has been answered."""
        started = self._started[batch[0].group]
        started.pop(0)
        if not started:
            del self._started[batch[0].group]

    def _is_busy(self, group: Hashable) -> bool:
        started = self._started.get(group)
        return started is not None and self.clock() - started[-1] < PATIENCE


class Worker:
    """Threads that answer requests in batches.

    Args:
        batch: The most requests of one batch.
        threads: The number of threads.
    """

    def __init__(self, batch: int, threads: int = 1) -> None:
        self.batch = batch
        self._queue, self._stopping = BatchQueue(), False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(
                # a copy of the context, in which --debug is set
                target=contextvars.copy_context().run,
                args=(self._work,),
                name=f"regard-models-{number}",
                daemon=True,
            )
            for number in range(threads)
        ]

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
            self._queue.put(request)
            self._changed.notify_all()

    def _work(self) -> None:
        while batch := self._wait_for_batch():
            try:
                answer(batch)
            finally:
                with self._changed:
                    self._queue.finish(batch)
                    self._changed.notify_all()

    def _wait_for_batch(self) -> list[PendingRequest]:
        """Return the next batch, or an empty one when the worker stops."""
        with self._changed:
            while not (batch := self._queue.take(self.batch)):
                if self._stopping and not self._queue:
                    break
                self._changed.wait(PATIENCE if self._queue else None)
            return batch


def answer(batch: Sequence[PendingRequest]) -> None:
    """Answer the requests of a batch, or report why there is no answer.

    A batch that fails before its first part is answered one request at a time, so that
    no request fails with another's error. Once no client waits, the work ends at the
    next `checkpoint()`.
    """
    waiting, started = dict(enumerate(batch)), False
    requests = [pending.request for pending in batch]

    def is_wanted() -> bool:
        return any(pending.is_active for pending in waiting.values())

    try:
        with suppress(Cancelled), cancellable(is_wanted):
            parts = batch[0].operation.respond(
                requests, lambda number: batch[number].is_active
            )
            for number, data, last in parts:
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
        return
    for pending in waiting.values():
        pending.put(READ_TIMEOUT if pending.is_slow else CLIENT_GONE)


def describe_failure(error: BaseException) -> Event:
    """Return the event of a failure; only the log has the details of a server's fault."""
    message = " ".join(str(error).split())
    if isinstance(error, RunError | FloatingPointError):
        return Event(b"", True, 500, message)
    if isinstance(error, ValueError):
        return Event(b"", True, 422, message)
    logger.error("a request failed", exc_info=error)
    return Event(b"", True, 500, str(unexpected(error)))
