"""Repeated layers of a model.

Sharded one by one, recomputed in the backward pass, or compiled.
"""

import logging
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.attention.observer import current_observer
from regard.errors import RunError
from regard.models import gpt2, llama
from regard.nn.transformer import DecoderLayer, EncoderLayer
from regard.nonfinite import is_debugging

LAYERS = (EncoderLayer, DecoderLayer, gpt2.Block, llama.Block)
"""The layers of Transformers, each of which is called as a whole."""


@runtime_checkable
class Sharded(Protocol):
    """A module that names those of its parts whose weights are gathered one after the other."""

    def sharded_parts(self) -> Iterable[nn.Module]:
        """Modules that are only ever called as a whole, by `module(...)`, and return tensors."""
        ...


def list_sharded_parts(model: nn.Module) -> list[nn.Module]:
    """Return the parts of a model that FSDP gathers one by one.

    Its layers, of a layer that reads a source its feed-forward network (a memory is
    prepared by the attention before the layer runs), and what a module names itself. A
    part that shares a parameter with another one is left out, so that the parameter has
    one group.
    """
    parts = list(
        dict.fromkeys(part for module in model.modules() for part in _parts(module))
    )
    names = Counter(
        id(layer) for _, layer in model.named_parameters(remove_duplicate=False)
    )
    return [
        part
        for part in parts
        if all(names[id(layer)] == 1 for layer in part.parameters())
    ]


def _parts(module: nn.Module) -> Iterable[nn.Module]:
    if isinstance(module, Sharded):
        return module.sharded_parts()
    if isinstance(module, DecoderLayer):
        return [module.feedforward]
    return [module] if isinstance(module, LAYERS) else []


class RecomputedForward:
    """A layer's forward whose activations are computed again in the backward pass.

    (Chen et al. 2016, 1604.06174.) Not without gradients and while attention is
    recorded.
    """

    def __init__(self, layer: nn.Module) -> None:
        self.eager: Callable[..., Any] = layer.forward

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if not torch.is_grad_enabled() or current_observer() is not None:
            return self.eager(*inputs, **options)
        return checkpoint(self.eager, *inputs, use_reentrant=False, **options)


@contextmanager
def recompute_layers(model: nn.Module) -> Iterator[None]:
    """Recompute the activations of the model's `LAYERS` inside."""
    layers: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, LAYERS):
            layers.append(module)
    try:
        for layer in layers:
            layer.forward = RecomputedForward(layer)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)


log = logging.getLogger("regard")


class CompiledForward:
    """A layer's forward.

    Compiled with gradients, eager without them (validation decodes in steps) and while
    attention is recorded. Raises RunError where PyTorch cannot compile it.
    """

    def __init__(self, layer: nn.Module, backend: str | Callable[..., Any]):
        from torch._dynamo.exc import (
            TorchDynamoException,
        )  # with its compiler, which takes a second

        self.failures = TorchDynamoException
        self.eager = layer.forward
        self.compiled = torch.compile(layer.forward, dynamic=True, backend=backend)

    def __call__(self, *inputs: Any) -> Any:
        if not torch.is_grad_enabled() or current_observer() is not None:
            return self.eager(*inputs)
        try:
            return self.compiled(*inputs)
        except self.failures as error:
            raise RunError(
                f"training.compile: PyTorch cannot compile this layer ({_reason(error)}); leave training.compile out"
            ) from error


@contextmanager
def compile_layers(
    model: nn.Module, *, log_layers: bool = True, backend: str = "inductor"
) -> Iterator[None]:
    """Compile the model's `LAYERS`, each at its first call with gradients.

    Weights keep their names. One graph serves all layers of a class and sequences of
    any length; a recurrence would need a graph for each length, with every step in it.

    Args:
        model: The model.
        log_layers: Log one line: the compiled layers, or why there are none (the model has
            no such layer, `--debug` checks every module, or this machine cannot compile).
        backend: The compiler.
    """
    layers: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if isinstance(module, LAYERS):
            layers[name] = module
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
    """Return why nothing can be compiled on the model's device.

    None after a successful trial.
    """
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
    """Return the first informative line of the error's cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        repr(error)
    ]
    count = (
        2 if lines[0].endswith(":") else 1
    )  # `backend='inductor' raised:`, then the cause
    return f"{type(error).__name__}: {' '.join(lines[:count])}"
