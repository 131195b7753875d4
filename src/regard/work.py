"""Work in loops: stop it when nobody waits for it, divide it among processes.

`with cancellable(active): run.predict(texts)`. Loops whose length a request decides
call `checkpoint()`: the steps of a search, the batches of a prediction, the rows of a
gradient. Outside `cancellable` it does nothing.

`with divide_among(exchange): objective.validate(model)`. Loops over batches that do not
depend on each other call `compute_batches`. Inside `divide_among` each process computes
its part of the batches and receives the others' results, so that all go on with the
same; outside, one computes them all.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.errors import RunError

B = TypeVar("B")
R = TypeVar("R")


class Cancelled(Exception):
    """Nobody waits for the result any more."""


_active: ContextVar[Callable[[], bool] | None] = ContextVar(
    "regard_active", default=None
)


@contextmanager
def cancellable(active: Callable[[], bool]) -> Iterator[None]:
    """Let `checkpoint()` end the block once `active()` is false. Raises Cancelled."""
    token = _active.set(active)
    try:
        yield
    finally:
        _active.reset(token)


def checkpoint() -> None:
    """Raise Cancelled inside `cancellable` if nobody waits for the result."""
    active = _active.get()
    if active is not None and not active():
        raise Cancelled


@runtime_checkable
class Exchange(Protocol):
    """The processes that share the work.

    How many, which one this is, and every one's value in the order of ranks.
    """

    @property
    def count(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def gather(self, value: Any, /) -> list[Any]: ...


_exchange: ContextVar[Exchange | None] = ContextVar("regard_exchange", default=None)


@contextmanager
def divide_among(exchange: Exchange) -> Iterator[None]:
    """Divide what `compute_batches` computes among processes.

    All of them get the same batches in the same order.
    """
    token = _exchange.set(exchange if exchange.count > 1 else None)
    try:
        yield
    finally:
        _exchange.reset(token)


def compute_batches(compute: Callable[[B], R], batches: Iterable[B]) -> list[R]:
    """Return the result of each batch, in their order.

    Results that other processes compute are pickled.

    Raises whatever `compute` raises, and RunError where another process raised it.
    """
    exchange = _exchange.get()

    def check_and_compute(batch: B) -> R:
        checkpoint()
        return compute(batch)

    if exchange is None:
        return [check_and_compute(batch) for batch in batches]
    batches = list(batches)
    results: list[R] | None = None
    try:
        share = batches[exchange.rank :: exchange.count]
        results = [check_and_compute(batch) for batch in share]
    finally:  # the others wait for this process, so it raises once they know
        parts = exchange.gather(results)
    if None in parts:
        raise RunError(
            f"process {parts.index(None)} failed in its part of the batches, so this "
            "one ends too"
        )
    turns = zip_longest(*parts)
    return [result for turn in turns for result in turn][: len(batches)]
