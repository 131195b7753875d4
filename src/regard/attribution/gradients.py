"""Gradient x input and integrated gradients: contributions of inputs to a score."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.record import ReportsWeights
from regard.maps.reductions import shares
from regard.nn.layers import Embedding
from regard.shapes import Float, to_float32
from regard.work import checkpoint


@dataclass(frozen=True, eq=False)
class Contribution:
    """The contributions of the inputs of one call of an embedding.

    Attributes:
        embedded: The argument of the call, usually token ids.
        amounts: The contribution of each position of the batch to each target, of any
            sign.
    """

    embedded: Any
    amounts: Float[Tensor, "target *position"]

    def shares(self) -> Float[np.ndarray, "target position"]:
        """Return the absolute amounts of the first text as shares of their sum."""
        return shares(self.amounts[:, 0].double().cpu().numpy())


def find_embeddings(model: nn.Module) -> list[nn.Module]:
    """Return the modules that embed tokens."""
    if isinstance(model, ReportsWeights):
        return [model.token_table]
    return [module for module in model.modules() if isinstance(module, Embedding)]


def compute_contributions(
    modules: Iterable[nn.Module],
    scores: Callable[[], Float[Tensor, " target"]],
    steps: int = 1,
    *,
    first_only: bool = False,
) -> list[Contribution]:
    """Compute the contributions at each call of the modules while `scores` runs.

        amount_ti = sum_d x_id  mean_k d score_t / d x_id at c_k x,  c_k = (k + 1/2) / K

    x_i `(width,)` is the module's output at position i. One step is gradient x input,
    at x itself (Denil et al. 2014, 1412.6815; Shrikumar et al. 2016, 1605.01713). Many
    are integrated gradients (Sundararajan et al. 2017, 1703.01365): the amounts of a
    target sum to its score minus the score at x = 0, nearly.

    Args:
        modules: The modules whose outputs are the inputs x.
        scores: Runs the model, and returns the scores.
        steps: The number of points K on the way from 0 to x.
        first_only: Whether only calls with the argument of the first one, such as the
            source, are on that way; others stay at x.

    Returns:
        The contributions of each call, in the order of the calls.
    """
    modules = list(modules)
    points = (np.arange(steps) + 0.5) / steps if steps > 1 else [1.0]
    passes = [
        differentiate(modules, scores, float(point), first_only=first_only)
        for point in points
    ]
    return [
        Contribution(calls[0][0], torch.stack([a for _, a in calls]).mean(0))
        for calls in zip(*passes, strict=True)
    ]


def differentiate(
    modules: Sequence[nn.Module],
    scores: Callable[[], Float[Tensor, " target"]],
    scale: float,
    *,
    first_only: bool,
) -> list[tuple[Any, Tensor]]:
    """Return the argument of each call, and its inputs times their gradients at `scale`."""
    calls: list[tuple[Any, Tensor, float]] = []

    def replace_output(module: nn.Module, arguments: tuple, output: Tensor) -> Tensor:
        is_first = not calls or arguments[0] is calls[0][0]
        share = scale if is_first or not first_only else 1.0
        leaf = (share * output.detach()).requires_grad_()  # the gradient stops here
        calls.append((arguments[0], leaf, share))
        return leaf

    hooks = [module.register_forward_hook(replace_output) for module in modules]
    try:
        with torch.enable_grad():
            targets = scores().unbind()
    finally:
        for hook in hooks:
            hook.remove()
    vectors = [vector for _, vector, _ in calls]
    amounts: list[list[Tensor]] = [[] for _ in calls]
    for target in targets:
        checkpoint()  # each backward pass can be canceled
        gradients = torch.autograd.grad(
            target, vectors, retain_graph=True, materialize_grads=True
        )
        for rows, gradient, call in zip(amounts, gradients, calls, strict=True):
            rows.append((gradient * call[1]).sum(-1).detach() / call[2])
    return [
        (embedded, torch.stack(rows))
        for (embedded, *_), rows in zip(calls, amounts, strict=True)
    ]


def select_log_probabilities(
    logits: Float[Tensor, "target choice"], choices: Sequence[int]
) -> Float[Tensor, " target"]:
    """Return the log-probability of one choice per row, in float32 or wider."""
    rows = torch.arange(len(choices), device=logits.device)
    return to_float32(logits).log_softmax(-1)[rows, list(choices)]
