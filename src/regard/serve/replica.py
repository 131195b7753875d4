"""Models for threads: each has modules of its own, whose hooks no other thread meets; all share their weights."""

import copy
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from torch import nn

from regard.tasks.run import Run

R = TypeVar("R", bound=Run[Any, Any])


class Replicas(Generic[R]):
    """A run for each thread, made of `run` when the thread first uses it."""

    def __init__(self, run: R) -> None:
        self.run, self._lock, self._local = run, threading.Lock(), threading.local()

    @property
    def own(self) -> R:
        """The run of this thread."""
        found: R | None = getattr(self._local, "run", None)
        if found is None:
            with self._lock:
                found = self._local.run = replica(self.run)
        return found


def replica(run: R) -> R:
    """The run with copies of its modules that share parameters, buffers and the hooks that they have now."""
    modules = {
        name: each for name, each in vars(run).items() if isinstance(each, nn.Module)
    }
    shared = [
        one
        for each in modules.values()
        for one in (*each.parameters(), *each.buffers(), *_hooks(each))
    ]
    memo: dict[int, Any] = {id(one): one for one in shared}
    new = copy.copy(run)
    vars(new).update(
        {name: copy.deepcopy(each, memo) for name, each in modules.items()}
    )
    return new


def _hooks(module: nn.Module) -> Iterator[Any]:
    """The functions that watch a module or one of its parts; they belong to their owner."""
    for part in module.modules():
        yield from (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
