"""Observers of lookups. An observer receives lookups of its own thread or task only.

A module reports one event of each lookup. A function in an event runs only if the
observer calls it. Nothing is stored on modules; without an observer the check costs one
look at an empty list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor, nn

from regard.attention.align import Draw
from regard.attention.masks import Mask
from regard.attention.scores import Sides, index_rows

SelectWeights = Callable[[Sequence[int] | None, Sequence[int] | None], Tensor]
"""Heads and queries (None: all) -> weights `(batch, [head,] query, key)`."""


class Projected(NamedTuple):
    """The parts of scaled-product scores of a model of transformers.

    query: `(batch, head, query, width)`.
    key, value: `(batch, group, key, width)`, where several heads may share a group.
    scale: Factor of the products.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float


class LookupEvent(NamedTuple):
    """One lookup of a module.

    queries: Number of queries.
    weights: Function that returns the weights of some heads and queries.
    value: `(*batch, key, value_width)`; None if unknown.
    mask: Mask over the keys.
    scores: Function that returns the score's two sides, or the scores before the mask;
        None if unknown.
    draws: Sampled keys, for training.
    projected: Queries, keys and values of a model of transformers.
    width: Number of weights of a query in all rows and heads; 0 if unknown.
    call: Number of this call of the module within a pass; several calls are several
        layers.
    first_key: Position of the first key, where a cache has forgotten those before it.
    cached: Whether the keys come from a cache of transformers.
    """

    queries: int
    weights: SelectWeights
    value: Tensor | None = None
    mask: Mask | None = None
    scores: Callable[[], Sides | Tensor] | None = None
    draws: tuple[Draw, ...] = ()
    projected: Projected | None = None
    width: int = 0
    call: int = 0
    first_key: int = 0
    cached: bool = False


class Observer(ABC):
    """A receiver of the lookups of some modules."""

    @abstractmethod
    def observes(self, module: nn.Module) -> bool:
        """Return whether it observes this module."""

    @property
    @abstractmethod
    def needs_weights(self) -> bool:
        """Whether it needs all weights, so that a module computes them at once."""

    @abstractmethod
    def receive(self, module: nn.Module, event: LookupEvent) -> None:
        """Receive a lookup of a module that it observes."""

    def reorder_rows(self, rows: Tensor) -> None:
        """Reorder the batch of a decode: row i becomes the former row `rows[i]`."""
        return

    def reject_queries(self, count: int) -> None:
        """Drop the last queries of a decode."""
        return

    def start_search(self) -> None:
        """Begin a beam search."""
        return

    def end_search(self, rows: Tensor) -> None:
        """End a beam search.

        Args:
            rows: The row of each returned sequence in each pass, `(sequence, pass)`; -1
                after the sequence's end.
        """
        return


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
    for observer in active_observers():
        if observer.observes(module):
            return observer
    return None


def report_event(module: nn.Module, event: LookupEvent) -> None:
    """Report a lookup of `module` to its observer, if there is one."""
    observer = find_observer(module)
    if observer is not None:
        observer.receive(module, event)


def select_from(weights: Tensor) -> SelectWeights:
    """Return a function that selects from weights `(batch, [head,] query, key)`."""
    has_heads = weights.ndim > 3
    return lambda heads, rows: index_rows(weights, heads if has_heads else None, rows)
