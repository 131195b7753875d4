"""Compilation of the repeated layers of a model."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from regard.attention.observer import current_observer
from regard.errors import RunError
from regard.models import gpt2, llama
from regard.nn.layers import EncoderLayer
from regard.nn.transformer import DecoderLayer
from regard.work import is_debugging

LAYERS = (EncoderLayer, DecoderLayer, gpt2.Block, llama.Block)
"""The layers of Transformers, each of which is called as a whole."""


log = logging.getLogger("regard")


class CompiledForward:
    """The forward method of a layer, compiled for training only.

    It runs eagerly without gradients, since validation decodes in steps, and while
    attention is recorded.

    Raises:
        RunError: PyTorch cannot compile it.
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
    model: nn.Module,
    *,
    log_layers: bool = True,
    backend: str = "inductor",
) -> Iterator[None]:
    """Compile the model's `LAYERS`, each at its first call with gradients.

    Weights keep their names. One graph serves all layers of a class and sequences of
    any length; a recurrence would need a graph for each length, with every step in it.

    Args:
        log_layers: Log one line: the compiled layers, or why there are none.
        backend: The compiler.
    """
    layers: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        if isinstance(module, LAYERS):
            layers[name] = module
    if not layers or is_debugging():
        reason = "--debug checks every module" if layers else "it has no such layer"
        if log_layers:
            message = "training.compile: nothing of this model is compiled: %s"
            log.warning(message, reason)
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


def _reason(error: BaseException) -> str:
    """Return the first informative line of the error's cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = list(filter(None, map(str.strip, str(error).splitlines())))
    # `backend='inductor' raised:`, then the cause
    count = 2 if lines and lines[0].endswith(":") else 1
    return f"{type(error).__name__}: {' '.join(lines[:count])}"
