"""Gradient x input: what an output's log-probability owes to each input, to first order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.maps.averages import shares
from regard.nn.embeddings import Embedding
from regard.shapes import Float


@dataclass(frozen=True, eq=False)
class Contributed:
    """given: what a module was called with. amounts: `(target, *position)`, of any sign, for each of its positions."""

    embedded: Any
    amounts: Float[Tensor, "target *position"]

    def shares(self) -> Float[np.ndarray, "target position"]:
        """Of one text, how large each amount is beside the others of its target."""
        return shares(self.amounts[:, 0].double().cpu().numpy())


def embeddings(model: nn.Module) -> list[nn.Module]:
    """The modules that make vectors of tokens."""
    return [each for each in model.modules() if isinstance(each, Embedding)]


def contributions(modules: Iterable[nn.Module], scores: Callable[[], Float[Tensor, " target"]]) -> list[Contributed]:
    """For each call of the modules while `scores` is computed, in their order:

        amount_ti = sum_d x_id  d score_t / d x_id

    x_i `(width,)` being what the module gave for position i (Denil et al. 2014, 1412.6815; Shrikumar et al. 2016,
    1605.01713). Of a score that is linear in x these add up to the score less that of x = 0.
    """
    with torch.enable_grad(), _watched(modules) as calls:
        predicted = scores().unbind()
    vectors = [vector for _, vector in calls]
    rows = [torch.autograd.grad(each, vectors, retain_graph=True, materialize_grads=True) for each in predicted]
    return [
        Contributed(embedded, torch.stack([(row[number] * vector).sum(-1) for row in rows]).detach())
        for number, (embedded, vector) in enumerate(calls)
    ]


@contextmanager
def _watched(modules: Iterable[nn.Module]) -> Iterator[list[tuple[Any, Tensor]]]:
    """While the block runs, what these modules give is where differentiation ends; it is collected with what they were
    given, call by call."""
    calls: list[tuple[Any, Tensor]] = []

    def keep(module: nn.Module, arguments: tuple, output: Tensor) -> Tensor:
        leaf = output.detach().requires_grad_()
        calls.append((arguments[0], leaf))
        return leaf

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def log_probabilities_of(logits: Float[Tensor, "target choice"], chosen: Sequence[int]) -> Float[Tensor, " target"]:
    """log p of one choice a row, in at least fp32."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return wide.log_softmax(-1)[torch.arange(len(chosen), device=logits.device), list(chosen)]


def check_no_maps(maps: Sequence[int] | None) -> None:
    """A gradient is that of the whole model. Raises InputError where maps are chosen."""
    if maps is not None:
        raise InputError("a map is chosen, but a gradient is that of the whole model; choose none")
