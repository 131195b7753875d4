"""Who observes the lookups of modules, in this thread or task alone, and what modules hand over.

A module hands one record of each lookup to `observe`. What a record holds as a function is computed only if the
observer calls it. Nothing is kept on the modules; outside of `with record(...)` blocks the question costs one look at
an empty list.
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
    """What scores are made of that are scaled products: query `(batch, head, query, width)`, key and value `(batch,
    group, key, width)`, each group serving as many heads; and the scale."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float


class LookupRecord(NamedTuple):
    """One lookup of a module.

    queries: how many.
    weights: heads and query positions (None: all) -> weights `(*batch, query, key)`.
    value: `(*batch, key, value_width)`; None: unknown.
    mask: over the keys.
    scores: the sides that the scores sum over, or the scores themselves before the mask; None: unknown.
    draws: what was drawn, for training.
    projected: queries, keys and values of a model of transformers.
    """

    queries: int
    weights: Chosen
    value: Tensor | None = None
    mask: Mask | None = None
    scores: Callable[[], Sides | Tensor] | None = None
    draws: tuple[Draw, ...] = ()
    projected: Projected | None = None


class Observer(ABC):
    """Receives the lookups of some modules."""

    @abstractmethod
    def observes(self, module: nn.Module) -> bool:
        """Whether it wants the lookups of this module."""

    @property
    @abstractmethod
    def needs_weights(self) -> bool:
        """Whether it needs all weights, so that none are better computed apart from the read."""

    @abstractmethod
    def receive(self, module: nn.Module, record: LookupRecord) -> None:
        """Take a lookup of a module that it observes."""


_here: ContextVar[Observer | None] = ContextVar("regard_observer", default=None)
_open: list[int] = []
"""Observers in any thread: `torch.compile` guards by this list, and could not by a context variable."""


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Inside the block this observer receives lookups, and no other."""
    token = _here.set(observer)
    _open.append(id(observer))
    try:
        yield
    finally:
        _open.remove(id(observer))
        _here.reset(token)


def current() -> Observer | None:
    """The observer of this thread or task; None: there is none."""
    return _here.get() if _open else None


def observer_of(module: nn.Module) -> Observer | None:
    """The observer that wants this module's lookups; None: there is none."""
    observer = current()
    return observer if observer is not None and observer.observes(module) else None


def observe(module: nn.Module, record: LookupRecord) -> None:
    """Hand a lookup of `module` to its observer, if there is one."""
    observer = observer_of(module)
    if observer is not None:
        observer.receive(module, record)


def chosen_of(weights: Tensor) -> Chosen:
    """Choose among weights `(batch, [head,] query, key)` that are there."""
    return lambda heads, rows: part(weights, heads if weights.ndim > 3 else None, rows)
