"""The passes of models of the transformers library: which call of a module it is, and where its keys begin."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary


class Call(NamedTuple):
    """A call of a module: its number within the pass, the absolute position of the first key, and whether the keys come
    from a cache."""

    number: int = 0
    first_key: int = 0
    cached: bool = False


class Passes:
    """The current pass of the models of one thread or task. A pass is a call of the outermost model."""

    def __init__(self) -> None:
        self.depth = 0
        self.calls: Counter[int] = Counter()
        self.first_keys: Any = WeakIdKeyDictionary()
        """The absolute position of the first key of the keys that a cache returned."""
        self.last: tuple[int, int] | None = None
        """Number of keys and position of the first that a cache returned last, until a lookup reads them."""
        self.caches: set[int] = set()

    def enter(self, module: nn.Module, inputs: Any) -> None:
        """The hook before a model's call."""
        if self.depth == 0:
            self.calls.clear()
        self.depth += 1

    def leave(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        """The hook after a model's call."""
        self.depth = max(0, self.depth - 1)
        if self.depth == 0:
            self.calls.clear()

    def updated(self, cache: Any, keys: Tensor, total: int) -> None:
        """A cache of `total` positions returned these keys `(batch, group, key, width)`, the last of all."""
        first = max(0, total - keys.shape[-2])
        self.first_keys[keys], self.last = first, (keys.shape[-2], first)
        self.caches.add(id(cache))

    def call_of(self, module: nn.Module, key: Tensor) -> Call:
        """Count a call of a module. Outside of a pass every call is the first."""
        number = self.calls[id(module)] if self.depth else 0
        self.calls[id(module)] += 1
        first, last = self.first_keys.get(key), self.last
        if first is None and last is not None and last[0] == key.shape[-2]:
            first = last[1]  # the keys were transformed after the cache returned them
        if first is not None:
            self.last = None
        return Call(number, first or 0, first is not None)


_passes: ContextVar[Passes | None] = ContextVar("regard_passes", default=None)


def passes() -> Passes:
    """The passes of this thread or task; without an open block new ones."""
    return _passes.get() or Passes()


@contextmanager
def watching(models: Sequence[nn.Module]) -> Iterator[None]:
    """Inside the block the calls of these models are counted as passes; a block within a block counts the same ones."""

    def enter(module: nn.Module, inputs: Any) -> None:
        passes().enter(module, inputs)

    def leave(module: nn.Module, inputs: Any, outputs: Any) -> None:
        passes().leave(module, inputs, outputs)

    token = _passes.set(_passes.get() or Passes())
    with ExitStack() as stack:
        for model in models:
            for hook in (
                model.register_forward_pre_hook(enter),
                model.register_forward_hook(leave, always_call=True),
            ):
                stack.callback(hook.remove)
        try:
            yield
        finally:
            _passes.reset(token)
