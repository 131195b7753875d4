"""Cross-entropy with label smoothing over a large vocabulary, without ever storing all logits."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

CHUNK = 512
"""Rows of logits that exist at one time."""
ROWS = 64
"""The last chunk is filled up with zeros to a multiple of so many rows: oneDNN compiles a product for every shape."""


def cross_entropy(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum over rows of the cross-entropy between softmax(W f + b) and (1 - smoothing) onehot + smoothing / V.

    The gradients are made chunk by chunk in the forward pass, while the chunk's logits are at hand. Under autocast the
    matrix products are in its precision; the softmax, the sums, the result and the gradients have that of `weight`.

    Args:
        features: `(row, width)`. weight: `(vocabulary, width)`. bias: `(vocabulary,)`. targets: `(row,)`.
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
        total = features.new_zeros(())
        wanted = any(ctx.needs_input_grad)
        grad_features, grad_weight, grad_bias = (torch.zeros_like(each) for each in (features, weight, bias))
        small_weight = weight.to(products)
        small_features = functional.pad(features.to(products), (0, 0, 0, -len(features) % ROWS))
        for first in range(0, len(features), CHUNK):
            rows = slice(first, first + CHUNK)
            chosen = targets[rows, None]
            logits = functional.linear(small_features[rows], small_weight).to(weight.dtype).add_(bias)
            total += _chunk(logits[: len(chosen)], chosen, smoothing)
            if wanted:
                logits[len(chosen) :] = 0.0
                grad_bias += logits.sum(0)
                grad = logits.to(products)
                grad_features[rows] = (grad @ small_weight)[: len(chosen)].to(weight.dtype)
                grad_weight += grad.t() @ small_features[rows]
        if wanted:
            ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides its names
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        (grad,) = grads
        return grad * grad_features, grad * grad_weight, grad * grad_bias, None, None, None


def _chunk(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The loss; its gradient with respect to the logits `(row, vocabulary)` is written over them."""
    vocabulary = logits.shape[1]
    logits -= logits.amax(1, keepdim=True)
    loss = (smoothing - 1) * logits.gather(1, targets).sum()
    if smoothing:
        loss -= smoothing / vocabulary * logits.sum()
    total = logits.exp_().sum(1, keepdim=True)
    loss += total.log().sum()
    logits.div_(total)
    if smoothing:
        logits -= smoothing / vocabulary
    logits.scatter_add_(1, targets, logits.new_full(targets.shape, smoothing - 1))
    return loss
