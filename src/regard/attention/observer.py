"""Observers of lookups. An observer receives lookups of its own thread or task only.

A module reports one record of each lookup to `observe`. A function in a record runs only if the observer calls it.
Nothing is stored on modules; outside of `with record(...)` blocks the check costs one look at an empty list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor, nn

from regard.attention.align.protocol import Draw
from regard.attention.masks import Mask
from regard.attention.scores.protocol import Sides
from regard.kernels.product import part

Chosen = Callable[[Sequence[int] | None, Sequence[int] | None], Tensor]
"""Heads and query positions (None: all) -> weights `(batch, [head,] query, key)`."""


class Projected(NamedTuple):
    """The parts of scaled-product scores: query `(batch, head, query, width)`, key and value `(batch, group, key,
    width)`, where several heads share a group, and the scale."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float


class LookupRecord(NamedTuple):
    """One lookup of a module.

    queries: number of queries.
    weights: heads and query positions (None: all) -> weights `(*batch, query, key)`.
    value: `(*batch, key, value_width)`; None if unknown.
    mask: mask over the keys.
    scores: the score's two sides, or the scores before the mask; None if unknown.
    draws: sampled keys, for training.
    projected: queries, keys and values of a model of transformers.
    width: number of weights of a query in all rows and heads; 0 if unknown.
    call: number of this call of the module within a pass; several calls are several layers.
    first_key: absolute position of the first key, where a cache has forgotten those before it.
    cached: whether the keys come from a cache of transformers.
    """

    queries: int
    weights: Chosen
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
    """Receives the lookups of some modules."""

    @abstractmethod
    def observes(self, module: nn.Module) -> bool:
        """Whether it observes this module."""

    @property
    @abstractmethod
    def needs_weights(self) -> bool:
        """Whether it needs all weights; a module then does not compute them apart from the read."""

    @abstractmethod
    def receive(self, module: nn.Module, record: LookupRecord) -> None:
        """Receive a lookup of a module that it observes."""

    def reordered(self, rows: Tensor) -> None:
        """The rows of a decode continue as these of them, `(row,)`."""
        return

    def rejected(self, queries: int) -> None:
        """The last queries of a decode are dropped."""
        return

    def search_started(self) -> None:
        """A beam search begins."""
        return

    def search_ended(self, rows: Tensor) -> None:
        """The beam search returned sequences, each with its row in every pass `(sequence, pass)`; -1 after its end."""
        return


_here: ContextVar[tuple[Observer, ...]] = ContextVar("regard_observers", default=())
_open: list[int] = []
"""Observers of all threads. `torch.compile` guards on this list; it cannot guard on a context variable."""


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Inside the block `observer` alone receives the lookups of the modules that it observes; those of other modules
    still go to the observers around the block."""
    token = _here.set((observer, *_here.get()))
    _open.append(id(observer))
    try:
        yield
    finally:
        _open.remove(id(observer))
        _here.reset(token)


def observers() -> tuple[Observer, ...]:
    """The observers of this thread or task, innermost first."""
    return _here.get() if _open else ()


def current() -> Observer | None:
    """The innermost observer of this thread or task, or None."""
    return next(iter(observers()), None)


def observer_of(module: nn.Module) -> Observer | None:
    """The observer of this module's lookups, or None."""
    return next((each for each in observers() if each.observes(module)), None)


def observe(module: nn.Module, record: LookupRecord) -> None:
    """Report a lookup of `module` to its observer, if there is one."""
    observer = observer_of(module)
    if observer is not None:
        observer.receive(module, record)


def chosen_of(weights: Tensor) -> Chosen:
    """Select from weights `(batch, [head,] query, key)` that exist already."""
    return lambda heads, rows: part(weights, heads if weights.ndim > 3 else None, rows)
