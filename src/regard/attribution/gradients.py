"""Gradient x input: the first-order contribution of each input to an output's log-probability."""

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
from regard.shapes import Float, wide
from regard.work import checkpoint


@dataclass(frozen=True, eq=False)
class Contributed:
    """embedded: the argument of the module's call.
    amounts: `(target, *position)`, the contribution of each position, of any sign.
    """

    embedded: Any
    amounts: Float[Tensor, "target *position"]

    def shares(self) -> Float[np.ndarray, "target position"]:
        """Absolute amounts as shares of their target's sum, for one text."""
        return shares(self.amounts[:, 0].double().cpu().numpy())


def embeddings(model: nn.Module) -> list[nn.Module]:
    """The modules that embed tokens."""
    return [each for each in model.modules() if isinstance(each, Embedding)]


def contributions(
    modules: Iterable[nn.Module], scores: Callable[[], Float[Tensor, " target"]]
) -> list[Contributed]:
    """The contributions at each call of the modules while `scores` is computed, in order:

        amount_ti = sum_d x_id  d score_t / d x_id

    x_i `(width,)` is the module's output at position i (Denil et al. 2014, 1412.6815; Shrikumar et al. 2016,
    1605.01713). If a score is linear in x, its amounts sum to the score minus the score at x = 0.
    """
    with torch.enable_grad(), _watched(modules) as calls:
        predicted = scores().unbind()
    vectors = [vector for _, vector in calls]
    rows = []
    for each in predicted:
        checkpoint()
        rows.append(
            torch.autograd.grad(
                each, vectors, retain_graph=True, materialize_grads=True
            )
        )
    return [
        Contributed(
            embedded,
            torch.stack([(row[number] * vector).sum(-1) for row in rows]).detach(),
        )
        for number, (embedded, vector) in enumerate(calls)
    ]


@contextmanager
def _watched(modules: Iterable[nn.Module]) -> Iterator[list[tuple[Any, Tensor]]]:
    """Collect each call's argument and output in this block. Gradients end at the outputs."""
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


def log_probabilities_of(
    logits: Float[Tensor, "target choice"], chosen: Sequence[int]
) -> Float[Tensor, " target"]:
    """The log-probability of one choice per row, in float32 or wider."""
    return wide(logits).log_softmax(-1)[
        torch.arange(len(chosen), device=logits.device), list(chosen)
    ]


def check_no_maps(maps: Sequence[int] | None) -> None:
    """Raises InputError if maps are chosen: a gradient belongs to the whole model."""
    if maps is not None:
        raise InputError("a gradient is of the whole model; choose no map")
