"""Find where the first NaN or infinity came from.

`with detect_nonfinite(model): model(...)` names the module.
Runs call their models inside `check_output(model)`, which checks the model's output.
The command line's `--debug` checks every module, in training too: commands run inside
`enable_debugging()`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


@contextmanager
def detect_nonfinite(model: nn.Module, *, output_only: bool = False) -> Iterator[None]:
    """Check every input and output of the modules of `model` while the block runs.

    Minus infinity passes: it is the score of a masked key and the logarithm of 0.

    Args:
        model: The model.
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
    """Whether all modules of `check_output` models are checked now."""
    return _debugging.get()


def watch_training(model: nn.Module) -> AbstractContextManager[None]:
    """`detect_nonfinite(model)` inside `enable_debugging()`.

    Elsewhere a context that does nothing. For training, which skips updates with NaN.
    """
    return detect_nonfinite(model) if is_debugging() else nullcontext()


def check_output(model: nn.Module) -> AbstractContextManager[None]:
    """`detect_nonfinite(model)` inside `enable_debugging()`.

    Elsewhere a check of the model's own output only, so that no NaN is predicted.
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
