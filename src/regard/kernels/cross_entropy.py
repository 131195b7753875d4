"""Cross-entropy with label smoothing over a large vocabulary, without ever storing all logits."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

CHUNK = 1024
"""Rows of logits that exist at one time."""
ROWS, COLUMNS = 64, 32
"""Rows of the last chunk and columns are filled up with zeros to a multiple of these, which keeps products quick and
their shapes few."""


def cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Sum over rows of the cross-entropy between softmax(W f + b) and (1 - smoothing) onehot + smoothing / V.

    The gradients are made chunk by chunk in the forward pass, while the chunk's logits are at hand. Under autocast the
    matrix products are in its precision and logits and probabilities are stored in it; every sum is made, and result
    and gradients are returned, in that of `weight`. A probability that it cannot hold counts as the least it can.

    Args:
        features: `(row, width)`. weight: `(vocabulary, width)`. bias: `(vocabulary,)`. targets: `(row,)`.

    Returns:
        The sum, and without a gradient what each row adds to it, `(row,)`.
    """
    device = features.device.type
    products = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    with torch.autocast(device, enabled=False):
        return _CrossEntropy.apply(features.to(weight.dtype), weight, bias, targets, smoothing, products)


def plain(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The reference, which stores the logits."""
    logits = functional.linear(features, weight, bias)
    return functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, bias, targets, smoothing, products):
        count, width = features.shape
        # The bias is the weight of one more feature, which is 1.
        given = _filled(torch.cat([features, features.new_ones(count, 1)], 1), ROWS, products)
        table = _filled(torch.cat([weight, bias[:, None]], 1), 1, products)
        losses, grad_given, grad_table = _chunks(given, table, targets, smoothing, weight.dtype)
        share, features_sum, weight_sum = smoothing / len(weight), features.sum(0), weight.sum(0)
        grad_features = grad_given[:count, :width] - share * weight_sum
        grad_weight = grad_table[:, :width] - share * features_sum
        grad_bias = grad_table[:, width] - share * count
        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        losses -= share * (features @ weight_sum + bias.sum())
        ctx.mark_non_differentiable(losses)
        return losses.sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides its names
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        grad, _ = grads
        return grad * grad_features, grad * grad_weight, grad * grad_bias, None, None, None


def _filled(rows: Tensor, multiple: int, dtype: torch.dtype) -> Tensor:
    return functional.pad(rows, (0, -rows.shape[1] % COLUMNS, 0, -len(rows) % multiple)).to(dtype)


def _chunks(
    given: Tensor, table: Tensor, targets: Tensor, smoothing: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's loss and the gradients of their sum, but for what smoothing takes from every class alike."""
    losses, least = given.new_zeros(len(targets), dtype=dtype), torch.finfo(dtype).tiny
    grad_given, grad_table = (torch.zeros_like(each, dtype=dtype) for each in (given, table))
    for first in range(0, len(targets), CHUNK):
        rows = slice(first, first + CHUNK)
        chosen = targets[rows]
        targeted = torch.arange(len(chosen), device=chosen.device), chosen
        logits = given[rows] @ table.t()
        grad = torch.softmax(logits, 1)
        likelihoods = grad[targeted].to(dtype)
        losses[rows] = smoothing * logits[targeted].to(dtype) - likelihoods.clamp(min=least).log()
        grad[len(chosen) :] = 0.0
        grad[targeted] = (likelihoods - (1 - smoothing)).to(grad.dtype)
        grad_given[rows] = (grad @ table).to(dtype)
        grad_table += grad.t() @ given[rows]
    return losses, grad_given, grad_table
