"""Requests that wait, in an order that is fair between clients."""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Generic, Protocol, TypeVar, runtime_checkable


@runtime_checkable
class Waiting(Protocol):
    """A request of a `client`; those of one `group` can be one batch; `gone` if nobody waits for its answer."""

    @property
    def client(self) -> Hashable: ...

    @property
    def group(self) -> Hashable: ...

    @property
    def gone(self) -> bool: ...


W = TypeVar("W", bound=Waiting)


class FairQueue(Generic[W]):
    """Takes the oldest request of one client after the other, each with others of its group. A client occupies at most
    `most` workers. Not safe for threads: its owner has a lock.

    While a batch of a group is answered, its other requests wait to become the next one: two batches of one model at
    once take longer than one after the other. A second worker begins with them after `patience` seconds."""

    def __init__(
        self,
        most: int,
        patience: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.patience, self.clock = most, patience, clock
        self._waiting: OrderedDict[Hashable, deque[W]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()  # batches of each client
        self._begun: dict[
            Hashable, list[float]
        ] = {}  # for each group the times of its batches that are answered now

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, request: W) -> None:
        """Append a request."""
        self._waiting.setdefault(request.client, deque()).append(request)

    def take(self, together: int) -> list[W]:
        """The next batch, `together` requests at most, whose first client occupies one more worker until `done`; empty
        if there is none, or if every client that waits occupies as many as it may, or if every group waits."""
        self._forget({id(each) for each in self._in_turn() if each.gone})
        open_groups = {
            each.group for each in self._in_turn() if not self._busy(each.group)
        }
        ready = (each for each in self._in_turn() if each.group in open_groups)
        first = next(
            (each for each in ready if self._running[each.client] < self.most), None
        )
        if first is None:
            return []
        self._waiting.move_to_end(first.client, last=False)
        others = (
            each
            for each in self._in_turn()
            if each.group == first.group and each is not first
        )
        batch = [first, *others][:together]
        self._forget({id(each) for each in batch})
        if first.client in self._waiting:
            self._waiting.move_to_end(first.client)
        self._running[first.client] += 1
        self._begun.setdefault(first.group, []).append(self.clock())
        return batch

    def done(self, batch: Sequence[W]) -> None:
        """A batch of `take` has been answered."""
        self._running[batch[0].client] -= 1
        self._running += Counter()  # without zeros
        begun = self._begun[batch[0].group]
        begun.pop(0)
        if not begun:
            del self._begun[batch[0].group]

    def _busy(self, group: Hashable) -> bool:
        """Whether a batch of the group was begun a moment ago and is not yet answered."""
        return (
            group in self._begun
            and self.clock() - self._begun[group][-1] < self.patience
        )

    def _in_turn(self) -> Iterator[W]:
        """The first request of each client, then the second of each, and so on."""
        rounds = chain.from_iterable(zip_longest(*self._waiting.values()))
        return (each for each in rounds if each is not None)

    def _forget(self, which: set[int]) -> None:
        if not which:
            return
        for client, requests in list(self._waiting.items()):
            kept = deque(each for each in requests if id(each) not in which)
            self._waiting[client] = kept
            if not kept:
                del self._waiting[client]
