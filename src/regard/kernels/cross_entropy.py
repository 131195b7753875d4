"""Cross-entropy with label smoothing over a large vocabulary, without ever storing all logits."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

CHUNK = 512
"""Rows of logits that exist at one time."""


def cross_entropy(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum over rows of the cross-entropy between softmax(W f + b) and (1 - smoothing) onehot + smoothing / V.

    The gradients are made chunk by chunk in the forward pass, while the chunk's logits are at hand. They and the sum
    have the precision of `weight`, under autocast too.

    Args:
        features: `(row, width)`. weight: `(vocabulary, width)`. bias: `(vocabulary,)`. targets: `(row,)`.
    """
    with torch.autocast(features.device.type, enabled=False):
        return _CrossEntropy.apply(features.to(weight.dtype), weight, bias, targets, smoothing)


def plain(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The reference, which stores the logits."""
    logits = functional.linear(features, weight, bias)
    return functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, bias, targets, smoothing):
        total = features.new_zeros(())
        wanted = any(ctx.needs_input_grad)
        grad_features, grad_weight, grad_bias = (torch.zeros_like(each) for each in (features, weight, bias))
        for first in range(0, len(features), CHUNK):
            rows = slice(first, first + CHUNK)
            logits = functional.linear(features[rows], weight, bias)
            loss, grad = _chunk(logits, targets[rows, None], smoothing)
            total += loss
            if wanted:
                grad_features[rows] = grad @ weight
                grad_weight.addmm_(grad.t(), features[rows])
                grad_bias += grad.sum(0)
        if wanted:
            ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides its names
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        (grad,) = grads
        return grad * grad_features, grad * grad_weight, grad * grad_bias, None, None


def _chunk(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Loss and its gradient with respect to the logits `(row, vocabulary)`, which are overwritten."""
    vocabulary = logits.shape[1]
    logits -= logits.amax(1, keepdim=True)
    loss = (smoothing - 1) * logits.gather(1, targets).sum()
    if smoothing:
        loss -= smoothing / vocabulary * logits.sum()
    total = logits.exp_().sum(1, keepdim=True)
    loss += total.log().sum()
    grad = logits.div_(total)
    if smoothing:
        grad -= smoothing / vocabulary
    return loss, grad.scatter_add_(1, targets, grad.new_full(targets.shape, smoothing - 1))
