"""Observers of lookups, which record or change them.

An observer sees the lookups of its own thread or task only.

A module reports one event of each lookup. A function in an event runs only if the
observer calls it. Nothing is stored on modules; without an observer the check costs one
look at an empty list.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.attention.align import Draw
from regard.attention.masks import Mask
from regard.attention.scores import Select, Sides, index_rows


class LookupEvent(NamedTuple):
    """One lookup of a module.

    Attributes:
        queries: Number of queries.
        weights: Function that returns the weights of some heads and queries.
        value: `(*batch, key, value_width)`; None if unknown.
        mask: Mask over the keys.
        scores: Function that returns the score's two sides, or the scores before the
            mask; None if unknown.
        draws: Sampled keys, for training.
        width: Number of weights of a query in all rows and heads; 0 if unknown.
        call: Number of this call of the module within a pass; several calls are several
            layers.
        first_key: Position of the first key, where a cache has forgotten those before
            it.
    """

    queries: int
    weights: Select
    value: Tensor | None = None
    mask: Mask | None = None
    scores: Callable[[], Sides | Tensor] | None = None
    draws: tuple[Draw, ...] = ()
    width: int = 0
    call: int = 0
    first_key: int = 0


class Observer:
    """A receiver of the lookups of some modules, or a changer of lookups."""

    def observes(self, module: nn.Module) -> bool:
        """Return whether it receives the lookups of this module."""
        return False

    @property
    def needs_weights(self) -> bool:
        """Whether it needs all weights, so that a module computes them at once."""
        return False

    def receive(self, module: nn.Module, event: LookupEvent) -> None:
        """Receive a lookup of a module that it observes."""

    def changes(self, module: nn.Module) -> bool:
        """Return whether it changes the lookups of this module."""
        return False

    def intervene(
        self,
        module: nn.Module,
        shape: Sequence[int],
        call: int,
        first_key: int,
        first_query: int | None,
    ) -> Any:
        """Return the changes of a lookup, a `regard.attention.intervene.Place`.

        It is called only for modules that it changes.

        Args:
            module: The module that attends.
            shape: The shape of its weights, `(batch, [head,] query, key)`.
            call: As in `LookupEvent`.
            first_key: As in `LookupEvent`.
            first_query: Position of the first query; None: behind those of the calls
                before.
        """
        return None


_observers: ContextVar[tuple[Observer, ...]] = ContextVar(
    "regard_observers", default=()
)
OBSERVERS: list[int] = []
"""Identities of the observers of all threads. `torch.compile` guards on this list; it
cannot guard on a context variable."""


@contextmanager
def observe_with(observer: Observer) -> Iterator[None]:
    """Send the lookups of the modules that `observer` observes to it alone.

    Those of other modules still go to the observers around the block.
    """
    token = _observers.set((observer, *_observers.get()))
    OBSERVERS.append(id(observer))
    try:
        yield
    finally:
        OBSERVERS.remove(id(observer))
        _observers.reset(token)


def active_observers() -> tuple[Observer, ...]:
    """Return the observers of this thread or task, innermost first."""
    return _observers.get() if OBSERVERS else ()


def current_observer() -> Observer | None:
    """Return the innermost observer of this thread or task."""
    return next(iter(active_observers()), None)


def find_observer(module: nn.Module) -> Observer | None:
    """Return the observer of this module's lookups."""
    observers = (item for item in active_observers() if item.observes(module))
    return next(observers, None)


def find_changes(
    module: nn.Module,
    shape: Sequence[int],
    call: int = 0,
    first_key: int = 0,
    first_query: int | None = None,
) -> list[Any]:
    """Return the changes of a lookup, outermost first, as `Observer.intervene`."""
    return [
        observer.intervene(module, shape, call, first_key, first_query)
        for observer in reversed(active_observers())
        if observer.changes(module)
    ]


def report_event(module: nn.Module, event: LookupEvent) -> None:
    """Report a lookup of `module` to its observer, if there is one."""
    observer = find_observer(module)
    if observer is not None:
        observer.receive(module, event)


def select_from(weights: Tensor) -> Select:
    """Return a function that selects from weights `(batch, [head,] query, key)`."""
    has_heads = weights.ndim > 3
    return lambda heads, rows: index_rows(weights, heads if has_heads else None, rows)
