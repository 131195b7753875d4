"""Monotonic alignment (Raffel 2017, 1704.00784): a query never reads a key before the one that was read last."""

import torch
from torch import Tensor, nn

from regard.attention.align.protocol import Align, Aligned, dense, reaching
from regard.attention.masks import Mask
from regard.shapes import Query, Scores, wide


class Monotonic(Align):
    """Scan the keys from the last one read and read the first that is chosen; key j is chosen with probability p_j =
    sigmoid(e_j + r).

    In training the weights are the expectation of this process (equation 14): a_j = p_j sum_{k <= j} a'_k prod_{k <= l
    < j} (1 - p_l), where a' are the previous query's weights. Noise on the scores teaches the model to decide. At
    inference the query reads the first key with p_j > 1/2, or none if there is none. A row sums to 1, or to less where
    no key may be chosen. The state is the last weights, `(*batch, key)`; at inference those of the last query that read
    a key.

    Args:
        offset: initial value of the learned r.
        noise: standard deviation of the noise in training.
    """

    def __init__(self, offset: float = -1.0, noise: float = 1.0):
        super().__init__()
        self.offset = nn.Parameter(torch.tensor(float(offset)))
        self.noise = noise

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Tensor | None = None,
    ) -> Aligned:
        keys = scores.shape[-1]
        if not keys:
            return Aligned(scores, state)
        energy = wide(scores) + self.offset
        if self.training:
            energy = energy + self.noise * torch.randn_like(energy)
        allowed = dense(mask, scores).expand(scores.shape)
        last = _at_the_first(energy) if state is None else reaching(state, keys)
        rows = []
        for row, may in zip(energy.unbind(-2), allowed.unbind(-2), strict=True):
            weights = (
                expected(row, may, last)
                if self.training
                else first_chosen(row, may, last)
            )
            read = weights.sum(-1, keepdim=True) > 0
            last = weights if self.training else torch.where(read, weights, last)
            rows.append(weights)
        weights = torch.stack(rows, -2) if rows else torch.zeros_like(scores)
        return Aligned(weights.to(scores.dtype), last)


def expected(energy: Tensor, allowed: Tensor, last: Tensor) -> Tensor:
    """The probability that each key is read, `(*batch, key)`. The scan skips masked keys."""
    passed = nn.functional.logsigmoid(-energy).masked_fill(~allowed, 0.0)
    until = passed.cumsum(-1) - passed  # the logarithm of passing all keys before j
    path = (
        (until[..., :, None] - until[..., None, :]).tril().exp().tril()
    )  # a quotient of products would be 0 / 0
    reached = (path @ last[..., None])[..., 0]
    return energy.sigmoid().masked_fill(~allowed, 0.0) * reached


def first_chosen(energy: Tensor, allowed: Tensor, last: Tensor) -> Tensor:
    """One-hot weights of the first key with a probability above 1/2, from the last key read on; zeros if there is
    none."""
    ahead = last.cumsum(-1) > 0
    takes = (energy > 0) & allowed & ahead
    return (takes & (takes.cumsum(-1) == 1)).to(energy.dtype)


def _at_the_first(scores: Tensor) -> Tensor:
    last = scores.new_zeros(*scores.shape[:-2], scores.shape[-1])
    last[..., 0] = 1.0
    return last
