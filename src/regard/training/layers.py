"""The repeated layers of a model: sharded one by one, and recomputed in the backward pass."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.attention.observer import current
from regard.models import gpt2, llama
from regard.nn.decoders.transformer import DecoderLayer, ReadingLayer
from regard.nn.encoders.transformer import EncoderLayer

LAYERS = (EncoderLayer, DecoderLayer, gpt2.Block, llama.Block)
"""The layers of Transformers, each of which is called as a whole."""


@runtime_checkable
class Sharded(Protocol):
    """A module that names those of its parts whose weights are gathered one after the other."""

    def sharded_parts(self) -> Iterable[nn.Module]:
        """Modules that are only ever called as a whole, by `module(...)`, and return tensors."""
        ...


def sharded_parts(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that FSDP gathers one by one: its layers, of a layer that reads a source its feed-forward
    network (a memory is prepared by the attention before the layer runs), and what a module names itself. A part that
    shares a parameter with another one is left out, so that the parameter has one group."""
    found = list(
        dict.fromkeys(part for module in model.modules() for part in _parts(module))
    )
    names = Counter(
        id(each) for _, each in model.named_parameters(remove_duplicate=False)
    )
    return [
        part
        for part in found
        if all(names[id(each)] == 1 for each in part.parameters())
    ]


def _parts(module: nn.Module) -> Iterable[nn.Module]:
    if isinstance(module, Sharded):
        return module.sharded_parts()
    if isinstance(module, ReadingLayer):
        return [module.feedforward]
    return [module] if isinstance(module, LAYERS) else []


class RecomputedForward:
    """A layer's forward whose activations are computed again in the backward pass (Chen et al. 2016, 1604.06174), but
    not without gradients and while attention is recorded."""

    def __init__(self, layer: nn.Module) -> None:
        self.eager: Callable[..., Any] = layer.forward

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if not torch.is_grad_enabled() or current() is not None:
            return self.eager(*inputs, **options)
        return checkpoint(self.eager, *inputs, use_reentrant=False, **options)


@contextmanager
def recomputing(model: nn.Module) -> Iterator[None]:
    """Recompute the activations of the model's `LAYERS` inside."""
    layers: list[nn.Module] = [
        each for each in model.modules() if isinstance(each, LAYERS)
    ]
    try:
        for layer in layers:
            layer.forward = RecomputedForward(layer)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)
