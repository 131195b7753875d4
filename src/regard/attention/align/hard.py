"""Alignments that read one key: sampled, straight-through and monotonic."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.align.soft import (
    Align,
    Aligned,
    AlignInput,
    Draw,
    dense_mask,
    pad_keys,
    softmax,
)
from regard.attention.masks import Mask
from regard.maps.reductions import row_entropy
from regard.shapes import Float, Int, Scores, Weights, to_float32


class Hard(Align):
    """One key for each query, sampled from the softmax (Xu 2015, 1502.03044, section 4.1).

    At inference the best key is read. No gradient passes through the sample;
    `Aligned.draw` holds what REINFORCE needs, and `regard train` applies it.

    Args:
        soft_share: Share of the sequences, in [0, 1], that read with the softmax itself
            in training; the paper uses a half. The choice is made at a sequence's first
            query and holds for all of them.
    """

    baseline: Tensor

    def __init__(self, soft_share: float = 0.0):
        super().__init__()
        if not 0 <= soft_share <= 1:
            raise ValueError(f"soft_share is {soft_share}; it must be between 0 and 1")
        self.soft_share = soft_share
        self.register_buffer("baseline", torch.zeros(()))

    def forward(self, inputs: AlignInput) -> Aligned:
        scores, mask, _, state = inputs
        soft = softmax(scores, mask)
        if not scores.shape[-1]:
            return Aligned(soft, state)
        if not self.training:
            hard = one_hot(soft.argmax(-1), soft, mask)
            return Aligned(hard, state)
        if state is None:
            numbers = torch.rand(scores.shape[:-2], device=scores.device)
            state = numbers < self.soft_share
        keys = sample_keys(soft.detach())
        probability = soft.gather(-1, keys[..., None])[..., 0]
        not_sampled = state[..., None] | (probability == 0)
        log_probability = torch.where(not_sampled, 1.0, probability).log()
        hard = one_hot(keys, soft, mask)
        weights = torch.where(state[..., None, None], soft, hard)
        draw = Draw(log_probability, row_entropy(soft), self.baseline)
        return Aligned(weights, state, draw)


class StraightThrough(Align):
    """One key for each query, sampled by Gumbel noise on the scores (Jang 2017, 1611.01144).

    Section 2.2: the gradient is that of the noisy softmax. At inference the best key is
    read, without noise.

    Args:
        temperature: Temperature of the softmax, above 0. The lower it is, the closer
            the softmax is to the sample.
    """

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        self.temperature = temperature

    def forward(self, inputs: AlignInput) -> Aligned:
        scores, mask, *_ = inputs
        noisy = to_float32(scores)
        if self.training:
            noisy = noisy - torch.empty_like(noisy).exponential_().log()
        soft = softmax(noisy / self.temperature, mask).to(scores.dtype)
        if not scores.shape[-1]:
            return Aligned(soft)
        hard = one_hot(soft.detach().argmax(-1), soft, mask)
        return Aligned(hard + (soft - soft.detach()))


def sample_keys(probabilities: Weights) -> Int[Tensor, "*batch query"]:
    """Sample a key for each query by an exponential race.

    It is any key for a query that may read none.
    """
    # a time of 0, which half precision draws, would be 0 / 0
    probabilities = to_float32(probabilities)
    times = torch.empty_like(probabilities).exponential_()
    return (probabilities / times).argmax(-1)


def one_hot(
    keys: Int[Tensor, "*batch query"],
    weights: Weights,
    mask: Mask | None,
) -> Weights:
    """Return 1 at each query's key, 0 elsewhere and where the mask forbids it."""
    indices = torch.arange(weights.shape[-1], device=weights.device)
    chosen = (indices == keys[..., None]) & dense_mask(mask, weights)
    return chosen.to(weights.dtype)


class Monotonic(Align):
    """A query never reads a key before the one that was read last (Raffel 2017, 1704.00784).

    It scans the keys from the last one read and reads the first that is chosen; key j
    is chosen with probability p_j = sigmoid(e_j + r). In training the weights are the
    expectation of this process (equation 14):

        a_j = p_j sum_{k <= j} a'_k prod_{k <= l < j} (1 - p_l)

    where a' are the previous query's weights. Noise on the scores teaches the model to
    decide. At inference the query reads the first key with p_j > 1/2, or none. A row
    sums to 1, or to less where no key may be chosen. The state is the last weights,
    `(*batch, key)`; at inference those of the last query that read a key.

    Args:
        offset: Initial value of the learned r.
        noise: Standard deviation of the noise in training.
    """

    def __init__(self, offset: float = -1.0, noise: float = 1.0):
        super().__init__()
        self.offset = nn.Parameter(torch.tensor(float(offset)))
        self.noise = noise

    def forward(self, inputs: AlignInput) -> Aligned:
        scores, mask, _, state = inputs
        if not scores.shape[-1]:
            return Aligned(scores, state)
        energy = to_float32(scores) + self.offset
        if self.training:
            energy = energy + self.noise * torch.randn_like(energy)
        allowed = dense_mask(mask, scores).expand(scores.shape)
        last = one_hot_first(energy)
        if state is not None:
            last = pad_keys(state, scores.shape[-1])
        rows = []
        for row, readable in zip(energy.unbind(-2), allowed.unbind(-2), strict=True):
            if self.training:
                weights = last = expect_weights(row, readable, last)
            else:
                # the first key with a probability above 1/2, from the last one read
                chosen = (row > 0) & readable & (last.cumsum(-1) > 0)
                weights = (chosen & (chosen.cumsum(-1) == 1)).to(row.dtype)
                has_read = weights.sum(-1, keepdim=True) > 0
                last = torch.where(has_read, weights, last)
            rows.append(weights)
        return Aligned(stack_rows(rows, scores), last)


def stack_rows(rows: list[Tensor], scores: Scores) -> Weights:
    """Return the weights of single queries as one tensor, in the dtype of the scores."""
    if not rows:
        return torch.zeros_like(scores)
    return torch.stack(rows, -2).to(scores.dtype)


def expect_weights(energy: Tensor, allowed: Tensor, last: Tensor) -> Tensor:
    """Return the probability that each key is read, `(*batch, key)`.

    The scan skips masked keys.
    """
    log_pass = functional.logsigmoid(-energy).masked_fill(~allowed, 0.0)
    before = log_pass.cumsum(-1) - log_pass  # of passing all keys before j
    # differences of logarithms, because a quotient of products would be 0 / 0
    path = (before[..., :, None] - before[..., None, :]).tril().exp().tril()
    reached = path @ last[..., None]
    return energy.sigmoid().masked_fill(~allowed, 0.0) * reached[..., 0]


def one_hot_first(scores: Scores) -> Float[Tensor, "*batch key"]:
    """Return all weight on the first key."""
    weights = scores.new_zeros(*scores.shape[:-2], scores.shape[-1])
    weights[..., :1] = 1.0
    return weights
