"""A request on its way from the network to the models and back."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import NamedTuple

from regard.serve.operation import Operation
from regard.serve.request import Ask

BEHIND = 8 << 20
"""Bytes of an answer that may wait for a client to read them."""


class Event(NamedTuple):
    """A part of an answer, ready to be sent, the last of it, or why there is none: then `status` is not 200 and `error`
    says what is wrong."""

    body: bytes
    last: bool
    status: int = 200
    error: str = ""


def fault(status: int, error: str) -> Event:
    """What ends an answer that cannot be finished."""
    return Event(b"", True, status, error)


LEFT = fault(499, "the client has left")
SLOW = fault(408, "the answer was not read in time")


class PendingRequest:
    """Made and read where the network is, answered in the worker's thread."""

    def __init__(self, name: Hashable, operation: Operation, ask: Ask) -> None:
        """`name` says which run's operation it is. Needs a running event loop."""
        self.operation, self.ask, self.gone = operation, ask, False
        self.group = (name, operation.group(ask))
        self._said = self._taken = 0  # bytes; each is counted in one thread alone
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    @property
    def slow(self) -> bool:
        """Whether the client reads so slowly that it will not be waited for."""
        return self._said - self._taken > BEHIND

    @property
    def wanted(self) -> bool:
        """Whether to go on with the answer."""
        return not self.gone and not self.slow

    def say(self, event: Event) -> None:
        """From the worker's thread."""
        self._said += len(event.body)
        with suppress(RuntimeError):  # a server that was made to quit at once has no loop any more
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def event(self) -> Event:
        """The next one, in the loop."""
        event = await self._events.get()
        self._taken += len(event.body)
        return event

    def give_up(self) -> None:
        """From the loop: nobody waits for the answer any more."""
        self.gone = True
        self._events.put_nowait(LEFT)
