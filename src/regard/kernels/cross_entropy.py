"""Cross-entropy with label smoothing over a large vocabulary, without ever storing all logits."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

CHUNK = 1024
"""Rows of logits that exist at one time."""
ROWS = 64
"""The last chunk is filled up with zeros to a multiple of so many rows: oneDNN compiles a product for every shape."""


def cross_entropy(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum over rows of the cross-entropy between softmax(W f + b) and (1 - smoothing) onehot + smoothing / V.

    The gradients are made chunk by chunk in the forward pass, while the chunk's logits are at hand. Under autocast the
    matrix products are in its precision and logits and probabilities are stored in it; every sum is made, and result
    and gradients are returned, in that of `weight`. A probability that it cannot hold counts as the least it can.

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
        grads = grad_features, grad_weight, grad_bias = [torch.zeros_like(each) for each in (features, weight, bias)]
        small_weight, small_bias = weight.to(products), bias.to(products)
        small_features = functional.pad(features.to(products), (0, 0, 0, -len(features) % ROWS))
        least = torch.finfo(weight.dtype).tiny
        ones = small_features.new_ones(1, len(small_features))
        for first in range(0, len(features), CHUNK):
            rows = slice(first, first + CHUNK)
            chunk, chosen = small_features[rows], targets[rows]
            logits = functional.linear(chunk, small_weight, small_bias)
            probabilities = torch.softmax(logits, 1)
            targeted = torch.arange(len(chosen), device=chosen.device), chosen
            likelihoods = probabilities[targeted].to(weight.dtype)
            total += smoothing * logits[targeted].sum(dtype=weight.dtype) - likelihoods.clamp(min=least).log().sum()
            if wanted:
                grad = probabilities
                grad[len(chosen) :] = 0.0
                grad[targeted] = (likelihoods - (1 - smoothing)).to(products)
                grad_features[rows] = (grad @ small_weight)[: len(chosen)].to(weight.dtype)
                grad_weight += grad.t() @ chunk
                grad_bias += (ones[:, : len(chunk)] @ grad)[0]
        if smoothing:
            share = smoothing / len(weight)
            mean_row, sum_of_rows = share * weight.sum(0), share * features.sum(0)
            total -= features.sum(0) @ mean_row + len(features) * share * bias.sum()
            for grad, part in zip(grads, (mean_row, sum_of_rows, share * len(features)), strict=True):
                grad -= part
        if wanted:
            ctx.save_for_backward(*grads)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides its names
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        (grad,) = grads
        return grad * grad_features, grad * grad_weight, grad * grad_bias, None, None, None
