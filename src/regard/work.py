"""Work in loops: stop it, divide it among processes, and find its first NaN.

`with cancellable(active): run.predict(texts)`. Loops whose length a request decides
call `checkpoint()`: the steps of a search, the batches of a prediction, the rows of a
gradient. Outside `cancellable` it does nothing.

`with divide_among(exchange): objective.validate(model)`. Loops over batches that do not
depend on each other call `compute_batches`. Inside `divide_among` each process computes
its part of the batches and receives the others' results, so that all go on with the
same; outside, one computes them all.

`with detect_nonfinite(model): model(...)` names the module with the first NaN. Runs call
their models inside `check_output(model)`, which checks the model's output. The command
line's `--debug` checks every module, in training too: commands run inside
`enable_debugging()`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regard.errors import RunError

B = TypeVar("B")
R = TypeVar("R")


class Cancelled(Exception):
    """Nobody waits for the result any more."""


_active: ContextVar[Callable[[], bool] | None] = ContextVar(
    "regard_active", default=None
)


@contextmanager
def cancellable(active: Callable[[], bool]) -> Iterator[None]:
    """Let `checkpoint()` end the block once `active()` is false. Raises Cancelled."""
    token = _active.set(active)
    try:
        yield
    finally:
        _active.reset(token)


def checkpoint() -> None:
    """Raise Cancelled inside `cancellable` if nobody waits for the result."""
    active = _active.get()
    if active is not None and not active():
        raise Cancelled


@runtime_checkable
class Exchange(Protocol):
    """The processes that share the work, and the exchange of values between them."""

    @property
    def count(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def gather(self, value: Any, /) -> list[Any]: ...


_exchange: ContextVar[Exchange | None] = ContextVar("regard_exchange", default=None)


@contextmanager
def divide_among(exchange: Exchange) -> Iterator[None]:
    """Divide what `compute_batches` computes among processes.

    All of them get the same batches in the same order.
    """
    token = _exchange.set(exchange if exchange.count > 1 else None)
    try:
        yield
    finally:
        _exchange.reset(token)


def compute_batches(compute: Callable[[B], R], batches: Iterable[B]) -> list[R]:
    """Return the result of each batch, in their order.

    Results that other processes compute are pickled.

    Raises whatever `compute` raises, and RunError where another process raised it.
    """
    exchange = _exchange.get()

    def check_and_compute(batch: B) -> R:
        checkpoint()
        return compute(batch)

    if exchange is None:
        return [check_and_compute(batch) for batch in batches]
    batches = list(batches)
    results: list[R] | None = None
    try:
        share = batches[exchange.rank :: exchange.count]
        results = [check_and_compute(batch) for batch in share]
    finally:  # the others wait for this process, so it raises once they know
        parts = exchange.gather(results)
    if None in parts:
        raise RunError(
            f"process {parts.index(None)} failed in its part of the batches, so this "
            "one ends too"
        )
    turns = zip_longest(*parts)
    return [result for turn in turns for result in turn][: len(batches)]


@contextmanager
def detect_nonfinite(model: nn.Module, *, output_only: bool = False) -> Iterator[None]:
    """Check every input and output of the modules of `model` while the block runs.

    Minus infinity passes: it is the score of a masked key and the logarithm of 0.

    Args:
        output_only: Whether to check only the output of the model itself.

    Raises:
        FloatingPointError: a tensor holds NaN or infinity; the message names the first
            module with such an input or output.
    """

    def check_inputs(place: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        check_finite((args, kwargs), f"the input of {place}")

    def check_output(place: str, module: nn.Module, args: Any, output: Any) -> None:
        check_finite(output, f"the output of {place}")

    hooks = []
    try:
        for name, module in [("", model)] if output_only else model.named_modules():
            place = name or type(model).__name__
            hooks.append(module.register_forward_hook(partial(check_output, place)))
            if not output_only:
                check = partial(check_inputs, place)
                hook = module.register_forward_pre_hook(check, with_kwargs=True)
                hooks.append(hook)
        yield
    finally:
        for hook in hooks:
            hook.remove()


_debugging: ContextVar[bool] = ContextVar("regard_debugging", default=False)


@contextmanager
def enable_debugging() -> Iterator[None]:
    """Check all modules of `check_output` models while the block runs."""
    token = _debugging.set(True)
    try:
        yield
    finally:
        _debugging.reset(token)


def is_debugging() -> bool:
    """Return whether all modules of `check_output` models are checked now."""
    return _debugging.get()


def watch_training(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context for training, which checks nothing outside `enable_debugging()`.

    Inside, it is `detect_nonfinite(model)`. Training itself skips updates with NaN.
    """
    return detect_nonfinite(model) if is_debugging() else nullcontext()


def check_output(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context in which the model's output is checked, so that it has no NaN.

    Inside `enable_debugging()` the outputs of all its modules are checked.
    """
    return detect_nonfinite(model, output_only=not is_debugging())


def check_finite(values: Any, subject: str) -> None:
    """Raise FloatingPointError for the first tensor with NaN or plus infinity."""
    for tensor in tree_leaves(values):
        is_float = isinstance(tensor, Tensor) and tensor.is_floating_point()
        if not is_float or bool(tensor.sum().isfinite()):
            continue
        broken = int((tensor.isnan() | tensor.isposinf()).sum())
        if broken:
            raise FloatingPointError(
                f"{subject} has {broken} of {tensor.numel()} numbers as NaN or infinity, shape {tuple(tensor.shape)}"
            )
