"""The cost of a training step of one part: processor time, and the memory of its tensors."""

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.experiments.mechanisms import Work


class Alive(TorchDispatchMode):
    """Count the bytes of new tensors, those of the backward pass too: alive `now`, and at `most`.

    It sees every result of every operation, and the end of its storage. It does not see what an operation allocates and
    frees inside itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for each in tensors((args, kwargs)):
            self._meet(each, 0)  # older, or known already
        result = function(*args, **(kwargs or {}))
        for each in tensors(result):
            self._meet(each, each.untyped_storage().nbytes())
        return result

    def _meet(self, tensor: Tensor, size: int) -> None:
        storage = tensor.untyped_storage()
        if id(storage) in self._known:
            return
        self._known.add(id(storage))
        weakref.finalize(storage, self._leave, id(storage), size)
        self.now += size
        self.most = max(self.most, self.now)

    def _leave(self, storage: int, size: int) -> None:
        self._known.discard(storage)
        self.now -= size


def tensors(nested: Any) -> Iterator[Tensor]:
    """The tensors in nested arguments."""
    return (each for each in tree_leaves(nested) if isinstance(each, Tensor))


def step(work: Work) -> Callable[[], object]:
    """Forward and backward as a call without arguments."""
    with torch.no_grad():
        gradient = torch.ones_like(work.forward())

    def call() -> object:
        return torch.autograd.grad(work.forward(), work.leaves, gradient, allow_unused=True)

    return call


def peak(call: Callable[[], object]) -> int:
    """Bytes that the tensors of a call take at most, its results among them, its inputs not."""
    with Alive() as alive:
        call()
    return alive.most


def seconds(calls: Sequence[Callable[[], object]], rounds: int, least: float = 0.005) -> list[float]:
    """Of each call, the median over rounds in which all of them take their turn. It is the time of the processor, of
    `least` seconds or more a turn, so that other programs on the machine count little."""
    times, found = [1] * len(calls), [[] for _ in calls]
    for turn in range(rounds + 1):  # the first warms up and says how many calls make a turn
        for place, call in enumerate(calls):
            began = time.process_time()
            for _ in range(times[place]):
                call()
            one = (time.process_time() - began) / times[place]
            if turn:
                found[place].append(one)
            else:
                times[place] = 1 + int(least / max(one, 1e-6))
    return [median(each) for each in found]


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, PyTorch works in one thread: a second one would help the large sizes and not the small ones."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
