"""Whoever listens to what modules do, in this thread or task alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Listening(Generic[T]):
    """What hears modules now. While nobody listens in any thread, to ask costs one look at an empty list; what
    `torch.compile` makes is guarded by that list, and could not be by a context variable."""

    def __init__(self, name: str):
        self._here: ContextVar[T | None] = ContextVar(name, default=None)
        self._open: list[int] = []

    @contextmanager
    def by(self, listener: T) -> Iterator[T]:
        """Inside, this one hears."""
        token = self._here.set(listener)
        self._open.append(id(listener))
        try:
            yield listener
        finally:
            self._open.remove(id(listener))
            self._here.reset(token)

    def now(self) -> T | None:
        """Who hears; None: nobody."""
        return self._here.get() if self._open else None
