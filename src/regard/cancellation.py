"""Stop work that nobody waits for: `with cancellable(active): run.predict(texts)`.

Loops whose length a request decides call `checkpoint()`: the steps of a search, the batches of a prediction, the rows
of a gradient. Outside `cancellable` it does nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(Exception):
    """Nobody waits for the result any more."""


_active: ContextVar[Callable[[], bool] | None] = ContextVar("regard_active", default=None)


@contextmanager
def cancellable(active: Callable[[], bool]) -> Iterator[None]:
    """Let `checkpoint()` end the block once `active()` is false. Raises Cancelled."""
    token = _active.set(active)
    try:
        yield
    finally:
        _active.reset(token)


def checkpoint() -> None:
    """Raises Cancelled inside `cancellable` if nobody waits for the result."""
    active = _active.get()
    if active is not None and not active():
        raise Cancelled
