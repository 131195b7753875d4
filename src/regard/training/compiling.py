"""`torch.compile` in training, for the repeated layers of a Transformer only."""

import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from regard.attention.observer import current
from regard.errors import RunError
from regard.nonfinite import is_debugging
from regard.training.layers import LAYERS

log = logging.getLogger("regard")


class CompiledForward:
    """A layer's forward: compiled with gradients, eager without them (validation decodes in steps) and while attention
    is recorded. Raises RunError where PyTorch cannot compile it."""

    def __init__(self, layer: nn.Module, backend: str | Callable[..., Any]):
        from torch._dynamo.exc import (
            TorchDynamoException,
        )  # with its compiler, which takes a second

        self.failures = TorchDynamoException
        self.eager = layer.forward
        self.compiled = torch.compile(layer.forward, dynamic=True, backend=backend)

    def __call__(self, *inputs: Any) -> Any:
        if not torch.is_grad_enabled() or current() is not None:
            return self.eager(*inputs)
        try:
            return self.compiled(*inputs)
        except self.failures as error:
            raise RunError(
                f"training.compile: PyTorch cannot compile this layer ({_reason(error)}); leave training.compile out"
            ) from error


@contextmanager
def compiling(
    model: nn.Module, *, log_layers: bool = True, backend: str = "inductor"
) -> Iterator[None]:
    """Compile the model's `LAYERS` inside the block, each at its first call with gradients; weights keep their names.
    One graph serves all layers of a class and sequences of any length; a recurrence would need a graph for each length,
    with every step in it.

    With `log_layers`, log one line: the compiled layers, or why there are none (the model has no such layer, `--debug`
    checks every module, or this machine cannot compile).
    """
    layers: dict[str, nn.Module] = {
        name: each for name, each in model.named_modules() if isinstance(each, LAYERS)
    }
    hindrance = (
        "it has no layers of a Transformer"
        if not layers
        else _hindrance(model, backend)
    )
    if log_layers and hindrance is not None:
        log.warning(
            "training.compile: nothing of this model is compiled: %s", hindrance
        )
    if hindrance is not None:
        yield
        return
    if log_layers:
        stacks = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in layers))
        log.info(
            "training.compile: %d layers are compiled (%s); the first updates wait for it",
            len(layers),
            stacks,
        )
    from torch.fx.experimental import _config as sizes

    open_sizes = sizes.patch(use_duck_shape=False)  # pyright: ignore[reportAttributeAccessIssue] # made at import
    with (
        warnings.catch_warnings(),
        open_sizes,
    ):  # sizes that are equal by chance are not always equal
        # PyTorch reads .grad of states inside an object, and warns about that itself
        warnings.filterwarnings(
            "ignore", message=r"The \.grad attribute of a Tensor that is not a leaf"
        )
        try:
            for layer in layers.values():
                layer.forward = CompiledForward(layer, backend)
            yield
        finally:
            for layer in layers.values():
                vars(layer).pop("forward", None)


def _hindrance(model: nn.Module, backend: str) -> str | None:
    """Why nothing can be compiled on the model's device; None after a successful trial."""
    if is_debugging():
        return "--debug checks every module; leave it out"
    from torch._inductor import config  # with its compiler, which takes a second

    device = next(model.parameters()).device
    compiler = config.cpp.cxx[-1]
    if (
        device.type == "cpu" and shutil.which(compiler) is None
    ):  # else what is in its cache would count
        return (
            f"there is no C++ compiler {compiler!r}; install one, or name yours in CXX"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # PyTorch warns about deprecated parts of its own
            torch.compile(_one_more, backend=backend)(torch.ones(2, device=device))
    except (RuntimeError, ImportError, OSError) as error:
        return f"PyTorch cannot compile here: {_reason(error)}"
    return None


def _one_more(states: torch.Tensor) -> torch.Tensor:
    return states + 1


def _reason(error: BaseException) -> str:
    """The first informative line of the error's cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        repr(error)
    ]
    count = (
        2 if lines[0].endswith(":") else 1
    )  # `backend='inductor' raised:`, then the cause
    return f"{type(error).__name__}: {' '.join(lines[:count])}"
