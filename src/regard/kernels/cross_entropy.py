"""Cross-entropy over a large vocabulary.

Exact with label smoothing and without storing all logits, or estimated from a sample of
words.

The sample follows a log-uniform distribution over ids, P(k) = log((k + 2) / (k + 1)) /
log(V + 1), which is close to word frequencies if ids are sorted by frequency.
"""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from regard.shapes import (
    Float,
    Ids,
    Int,
    Numbers,
    RowIds,
    to_float32,
)

CHUNK = 1024
"""Number of rows whose logits exist at one time."""
ROWS = 64
"""Padding of the last chunk's rows to a multiple of these: it keeps matrix products fast
and their shapes few."""


def cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy between softmax(W f + b) and the smoothed targets over rows.

    Smoothed targets are (1 - smoothing) onehot + smoothing / V.

    The forward pass computes the gradients chunk by chunk, while a chunk's logits
    exist. Under autocast the matrix products use its precision, and logits and
    probabilities are stored in it. Sums, result and gradients have the precision of
    `weight`. A probability that underflows counts as the smallest positive number.

    Args:
        features: `(row, width)`.
        weight: `(vocabulary, width)`.
        bias: `(vocabulary,)`.
        targets: `(row,)`.

    Returns:
        The sum, and the loss of each row without a gradient, `(row,)`.
    """
    device = features.device.type
    dtype = weight.dtype
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    features = features.to(weight.dtype)
    with torch.autocast(device, enabled=False):
        return _CrossEntropy.apply(
            features,
            weight,
            bias,
            targets,
            smoothing,
            dtype,
        )


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, bias, targets, smoothing, products):
        count = len(features)
        inputs = functional.pad(features, (0, 0, 0, -count % ROWS)).to(products)
        losses, grad_features, grad_weight, grad_bias = _chunks(
            inputs, weight, bias, targets, smoothing
        )
        share = smoothing / len(weight)
        weight_sum = weight.sum(0)
        grad_features = grad_features[:count] - share * weight_sum
        grad_weight -= share * features.sum(0)
        grad_bias -= share * count
        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        losses -= share * (features @ weight_sum + bias.sum())
        ctx.mark_non_differentiable(losses)
        return losses.sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator hides parameter names
        gradients = [grads[0] * gradient for gradient in ctx.saved_tensors]
        return *gradients, None, None, None


def _chunks(
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    smoothing: float,
) -> tuple[Tensor, ...]:
    """Return each row's loss and the gradients of inputs, weight and bias.

    All lack the terms of smoothing that are equal for all classes.
    """
    dtype = weight.dtype
    table, offsets = weight.to(inputs.dtype), bias.to(inputs.dtype)
    losses = weight.new_zeros(len(targets))
    least = torch.finfo(dtype).tiny
    grad_inputs = torch.zeros_like(inputs, dtype=dtype)
    grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(bias)
    for first in range(0, len(targets), CHUNK):
        rows = slice(first, first + CHUNK)
        chosen = targets[rows]
        count = len(chosen)
        targeted = torch.arange(count, device=chosen.device), chosen
        logits = functional.linear(inputs[rows], table, offsets)
        grad = torch.softmax(logits, 1)
        likelihoods = grad[targeted].to(dtype)
        smooth = smoothing * logits[targeted].to(dtype)
        losses[rows] = smooth - likelihoods.clamp(min=least).log()
        grad[count:] = 0.0
        grad[targeted] = (likelihoods - (1 - smoothing)).to(grad.dtype)
        grad_inputs[rows] = (grad @ table).to(dtype)
        grad_weight += grad.t() @ inputs[rows]
        grad_bias += grad.sum(0, dtype=dtype)
    return losses, grad_inputs, grad_weight, grad_bias


def log_uniform(words: Ids, vocabulary: int) -> Numbers:
    """P of each word, in float64."""
    return (words.double() + 1).reciprocal().log1p() / math.log(vocabulary + 1)


def sample_ids(samples: int, vocabulary: int) -> Int[Tensor, " sample"]:
    """Sample words independently.

    The CPU's global random state is used on any device, so that samples are the same
    everywhere.
    """
    places = torch.rand(samples, dtype=torch.float64) * math.log(vocabulary + 1)
    return (places.exp().long() - 1).clamp(0, vocabulary - 1)


def estimate_cross_entropy(
    features: Float[Tensor, "row width"],
    weight: Float[Tensor, "word width"],
    bias: Float[Tensor, " word"],
    targets: RowIds,
    sampled: Int[Tensor, " sample"],
) -> Float[Tensor, " row"]:
    """Return log(1 + sum_k exp(o_k - o_t) / (S P(k))) of S sampled words.

    The words k are others than the target t, and o = W f + b: importance sampling of the
    sum over the vocabulary (Bengio, Senecal 2003; Jozefowicz 2016, 1602.02410, section
    3.1).

    The expectation of its exponential is the exponential of the exact loss.
    """
    products = (features * weight[targets]).sum(-1)
    target_logits = to_float32(products) + bias[targets]
    expected = log_uniform(sampled, len(weight)) * len(sampled)
    correction = expected.log().to(bias)
    sampled = sampled.to(targets.device)
    logits = functional.linear(features, weight[sampled], bias[sampled])
    is_target = sampled == targets[:, None]
    logits = (to_float32(logits) - correction).masked_fill(is_target, -torch.inf)
    logits = torch.cat([target_logits[:, None], logits], 1)
    return logits.logsumexp(1) - target_logits
