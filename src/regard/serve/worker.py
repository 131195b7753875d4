"""The threads that use the models, and the requests on their way to them and back."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Hashable, Sequence
from contextlib import suppress
from typing import NamedTuple

import torch

from regard.errors import RunError
from regard.serve.fair_queue import FairQueue
from regard.serve.http_errors import encode
from regard.serve.operation import Operation
from regard.serve.request import RequestBody
from regard.work import Cancelled, cancellable

logger = logging.getLogger(__name__)
UNREAD = 8 << 20
"""Bytes of an answer that may wait for a client to read them."""


WORKERS = 2, 8
"""The least and the most workers where their number follows the cores: beside one that is busy another is free."""


def share_cores(workers: int | None) -> int:
    """The number of workers, by default one for each core within `WORKERS`. PyTorch's threads of each become as many as
    cores for each that one client may occupy."""
    cores = torch.get_num_threads()
    workers = min(max(cores, WORKERS[0]), WORKERS[1]) if workers is None else workers
    torch.set_num_threads(max(1, cores // max(1, workers - 1)))
    return workers


class Event(NamedTuple):
    """A part of an answer, ready to be sent, the last of it, or why there is none: then `status` is not 200 and `error`
    says what is wrong."""

    body: bytes
    last: bool
    status: int = 200
    error: str = ""


def fault(status: int, error: str) -> Event:
    """The event that ends an answer which cannot be finished."""
    return Event(b"", True, status, error)


LEFT = fault(499, "the client has left")
SLOW = fault(408, "the answer was not read in time")


class PendingRequest:
    """A request without a whole answer: created and read in the event loop, answered in a worker's thread."""

    def __init__(
        self,
        name: Hashable,
        operation: Operation,
        request: RequestBody,
        client: str = "",
    ) -> None:
        """`name` identifies the operation of one run, `client` who sent it. Needs a running event loop."""
        self.operation, self.request, self.client, self.gone = (
            operation,
            request,
            client,
            False,
        )
        self.group = (name, operation.group(request))
        self._put = self._read = 0  # bytes; each is counted in one thread alone
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    @property
    def slow(self) -> bool:
        """Whether the client reads so slowly that the server does not wait for it."""
        return self._put - self._read > UNREAD

    @property
    def active(self) -> bool:
        """Whether to go on with the answer."""
        return not self.gone and not self.slow

    def put(self, event: Event) -> None:
        """From the worker's thread."""
        self._put += len(event.body)
        with suppress(
            RuntimeError
        ):  # a server that was made to quit at once has no loop any more
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def event(self) -> Event:
        """The next one, in the loop."""
        event = await self._events.get()
        self._read += len(event.body)
        return event

    def give_up(self) -> None:
        """From the loop: nobody waits for the answer any more."""
        self.gone = True
        self._events.put_nowait(LEFT)


class Worker:
    """Answers requests by `threads` that share all weights: those of the clients in turn, each with others of its
    group, `together` at most. If there are several threads, one client has all of them but one."""

    def __init__(self, together: int, threads: int = 1) -> None:
        self.together = together
        self._requests: FairQueue[PendingRequest] = FairQueue(max(1, threads - 1))
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [  # each with a context of its own, in which --debug is
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(self._work,),
                name=f"regard-models-{number}",
                daemon=True,
            )
            for number in range(threads)
        ]

    @property
    def working(self) -> bool:
        """Whether requests get their answers."""
        return all(each.is_alive() for each in self._threads) and not self._stopping

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End once every request has been answered or given up."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def put(self, pending: PendingRequest) -> None:
        """Append a request to the queue."""
        with self._changed:
            self._requests.put(pending)
            self._changed.notify_all()

    def _work(self) -> None:
        while batch := self._next():
            answer(batch)
            with self._changed:
                self._requests.done(batch)
                self._changed.notify_all()

    def _next(self) -> list[PendingRequest]:
        """The next batch; empty at the end."""
        with self._changed:
            while not (batch := self._requests.take(self.together)):
                if self._stopping and not self._requests:
                    break
                self._changed.wait(self._requests.patience if self._requests else None)
            return batch


def answer(batch: Sequence[PendingRequest]) -> None:
    """Answer each request, or report why there is no answer. Where a batch fails before its first part, each request is
    answered alone, so that none suffers from another's fault.

    Once no client waits, the work ends at the next `checkpoint()`."""
    waiting, silent = dict(enumerate(batch)), True
    try:
        with (
            suppress(Cancelled),
            cancellable(lambda: any(each.active for each in waiting.values())),
        ):
            parts = batch[0].operation.respond(
                [each.request for each in batch], lambda number: batch[number].active
            )
            for number, data, last in parts:
                silent = False
                batch[number].put(Event(encode(data), last))
                if last:
                    del waiting[number]
    except Exception as error:
        if silent and len(batch) > 1:
            for pending in batch:
                answer([pending])
            return
        for pending in waiting.values():
            pending.put(failure(error))
        return
    for pending in waiting.values():
        pending.put(SLOW if pending.slow else LEFT)


def failure(error: Exception) -> Event:
    """A fault of the request as it is; one of ours without its details, which the log has."""
    if isinstance(error, ValueError | FloatingPointError | RunError):
        ours = not isinstance(error, ValueError) or isinstance(error, RunError)
        return fault(500 if ours else 422, " ".join(str(error).split()))
    logger.error("a request failed", exc_info=error)
    return fault(500, f"unexpected {type(error).__name__}; the server's log says more")
