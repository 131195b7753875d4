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
    """Counts the bytes of new tensors, those of the backward pass included: `now` alive, and at `most`.

    It observes every result of every operation and the end of its storage, but not temporary memory inside an
    operation."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for each in tensors((args, kwargs)):
            self._meet(each, 0)  # older, or already counted
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
    """A forward and backward pass as a call without arguments."""
    with torch.no_grad():
        gradient = torch.ones_like(work.forward())

    def call() -> object:
        return torch.autograd.grad(
            work.forward(), work.leaves, gradient, allow_unused=True
        )

    return call


def peak(call: Callable[[], object]) -> int:
    """The peak of bytes in a call's tensors, its results included, its inputs excluded."""
    with Alive() as alive:
        call()
    return alive.most


def seconds(
    calls: Sequence[Callable[[], object]], rounds: int, least: float = 0.005
) -> list[float]:
    """The median time of each call over rounds, in processor time, so that other programs have little effect. All calls
    alternate, each repeated for `least` seconds or more per round."""
    times, found = [1] * len(calls), [[] for _ in calls]
    for turn in range(
        rounds + 1
    ):  # the first call warms up and determines the number of repetitions
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
    """Within the block, PyTorch uses one thread: a second one would speed up large sizes only."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
