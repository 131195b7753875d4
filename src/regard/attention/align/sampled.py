"""Alignments that read one key: sampled in training, the best one at inference."""

from typing import Any

import torch
from torch import Tensor

from regard.attention.align.protocol import Align, Aligned, Draw, dense
from regard.attention.align.soft import softmax
from regard.attention.masks import Mask
from regard.maps.entropy import row_entropy
from regard.shapes import Context, Int, Query, Scores, Weights, wide


class Hard(Align):
    """Read one key, sampled from the softmax (Xu 2015, 1502.03044, section 4.1). At inference read the best key.

    No gradient passes through the sample. `Aligned.draw` holds what REINFORCE needs, and `regard train` applies it.

    Args:
        soft_share: share of the sequences, in [0, 1], that read with the softmax itself in training; the paper uses a
            half. The choice is made at a sequence's first query and holds for all of them.
    """

    baseline: Tensor

    def __init__(self, soft_share: float = 0.0):
        super().__init__()
        if not 0 <= soft_share <= 1:
            raise ValueError(f"soft_share is {soft_share}; it must be between 0 and 1")
        self.soft_share = soft_share
        self.register_buffer("baseline", torch.zeros(()))

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        soft = self.soft(scores, mask)
        if not scores.shape[-1]:
            return Aligned(soft, state)
        if not self.training:
            return Aligned(_only(soft.argmax(-1), soft, mask), state)
        if state is None:
            state = (
                torch.rand(scores.shape[:-2], device=scores.device) < self.soft_share
            )
        sampled = self.draw(soft.detach())
        chosen = soft.gather(-1, sampled[..., None])[..., 0]
        unlearned = state[..., None] | (chosen == 0)
        log_probability = torch.where(unlearned, 1.0, chosen).log()
        weights = torch.where(state[..., None, None], soft, _only(sampled, soft, mask))
        return Aligned(
            weights, state, Draw(log_probability, row_entropy(soft), self.baseline)
        )

    def soft(self, scores: Scores, mask: Mask | None = None) -> Weights:
        """The distribution over the keys, of which inference reads the most likely one."""
        return softmax(scores, mask)

    def draw(self, probabilities: Weights) -> Int[Tensor, "*batch query"]:
        """Sample a key for each query by an exponential race; any key for a query that may read none."""
        probabilities = wide(
            probabilities
        )  # a time of 0, which half precision draws, would be 0 / 0
        return (probabilities / torch.empty_like(probabilities).exponential_()).argmax(
            -1
        )


class StraightThrough(Align):
    """Read one key, sampled from the softmax by Gumbel noise on the scores; the gradient is that of the noisy softmax
    (Jang 2017, 1611.01144, section 2.2). At inference read the best key, without noise.

    Args:
        temperature: temperature of the softmax, above 0. The lower it is, the closer the softmax is to the sample.
    """

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        self.temperature = temperature

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        soft = self.soft(scores, mask)
        if not scores.shape[-1]:
            return Aligned(soft)
        hard = _only(soft.detach().argmax(-1), soft, mask)
        return Aligned(hard + (soft - soft.detach()))

    def soft(self, scores: Scores, mask: Mask | None = None) -> Weights:
        """The distribution over the keys, in training of scores with noise, of which the most likely one is read."""
        noisy = wide(scores)
        if self.training:
            noisy = noisy - torch.empty_like(noisy).exponential_().log()
        return softmax(noisy / self.temperature, mask).to(scores.dtype)


def best_value(soft: Weights, mask: Mask | None, value: Tensor) -> Context:
    """The value of each query's most likely key, 0 where the mask forbids every key."""
    chosen = soft.argmax(-1, keepdim=True)
    found = torch.take_along_dim(value, chosen, -2)
    return (
        found
        if mask is None
        else found * dense(mask, soft).expand_as(soft).gather(-1, chosen)
    )


def _only(
    chosen: Int[Tensor, "*batch query"], soft: Weights, mask: Mask | None
) -> Weights:
    """1 at each query's chosen key, 0 elsewhere and where the mask forbids it."""
    places = torch.arange(soft.shape[-1], device=soft.device)
    return ((places == chosen[..., None]) & dense(mask, soft)).to(soft.dtype)
