"""Requests that wait, in an order that is fair between clients."""

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence
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
    `most` workers. Not safe for threads: its owner has a lock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._waiting: OrderedDict[Hashable, deque[W]] = OrderedDict()
        self._running: Counter[Hashable] = Counter()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, request: W) -> None:
        """Append a request."""
        self._waiting.setdefault(request.client, deque()).append(request)

    def take(self, together: int) -> list[W]:
        """The next batch, `together` requests at most, whose first client occupies one more worker until `done`; empty
        if there is none, or if every client that waits occupies as many as it may."""
        self._forget({id(each) for each in self._in_turn() if each.gone})
        client = next((each for each in self._waiting if self._running[each] < self.most), None)
        if client is None:
            return []
        self._waiting.move_to_end(client, last=False)
        first = self._waiting[client][0]
        batch = [each for each in self._in_turn() if each.group == first.group][:together]
        self._forget({id(each) for each in batch})
        if client in self._waiting:
            self._waiting.move_to_end(client)
        self._running[client] += 1
        return batch

    def done(self, batch: Sequence[W]) -> None:
        """A batch of `take` has been answered."""
        self._running[batch[0].client] -= 1
        self._running += Counter()  # without zeros

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
