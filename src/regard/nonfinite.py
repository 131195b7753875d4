"""Where the first NaN or infinity came from: `with detect_nonfinite(model): model(...)`.

The command line's `--debug` does so for every model: its commands run inside `debugging()`, what calls a model inside
`guarded(model)`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


@contextmanager
def detect_nonfinite(model: nn.Module) -> Iterator[None]:
    """Look at everything that the modules of `model` are given and give while the block runs.

    Minus infinity passes: it is the score of what must not be read, and the logarithm of 0.

    Raises:
        FloatingPointError: a tensor has NaN or infinity; the message names the first module that was given or gave it.
    """
    hooks = []
    try:
        for name, module in model.named_modules():
            place = name or type(model).__name__
            hooks.append(module.register_forward_pre_hook(partial(refuse_inputs, place), with_kwargs=True))
            hooks.append(module.register_forward_hook(partial(refuse_output, place)))
        yield
    finally:
        for hook in hooks:
            hook.remove()


_debugging: ContextVar[bool] = ContextVar("regard_debugging", default=False)


@contextmanager
def debugging() -> Iterator[None]:
    """While the block runs, `guarded` models are looked at."""
    token = _debugging.set(True)
    try:
        yield
    finally:
        _debugging.reset(token)


def is_debugging() -> bool:
    """Whether `guarded` models are looked at now."""
    return _debugging.get()


def guarded(model: nn.Module) -> AbstractContextManager[None]:
    """`detect_nonfinite(model)` while `debugging()`, else nothing, at no cost."""
    return detect_nonfinite(model) if is_debugging() else nullcontext()


def refuse_inputs(place: str, module: nn.Module, args: Any, kwargs: Any) -> None:
    """The hook before a module's call."""
    refuse((args, kwargs), f"{place} was given")


def refuse_output(place: str, module: nn.Module, args: Any, output: Any) -> None:
    """The hook after a module's call."""
    refuse(output, f"{place} gave")


def refuse(values: Any, what: str) -> None:
    """Raises FloatingPointError for the first of the tensors among `values` that is not finite."""
    for tensor in tree_leaves(values):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            continue
        broken = int((tensor.isnan() | tensor.isposinf()).sum())
        if broken:
            raise FloatingPointError(
                f"{what} {broken} of {tensor.numel()} numbers as NaN or infinity, shape {tuple(tensor.shape)}"
            )
