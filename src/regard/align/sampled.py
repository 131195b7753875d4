"""Alignments that read one key: drawn in training, the best one at inference."""

from typing import Any

import torch

from regard.align.extent import dense
from regard.align.protocol import Align, Aligned
from regard.align.soft import softmax
from regard.masks import Mask
from regard.shapes import Query, Scores


class StraightThrough(Align):
    """One key, drawn from the softmax by adding Gumbel noise to the scores; the gradient is that of the noisy softmax
    (Jang 2017, 1611.01144, section 2.2). At inference the best key, without noise.

    Args:
        temperature: of that softmax, above 0; the lower, the nearer is its gradient to that of the draw.
    """

    def __init__(self, temperature: float = 1.0):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; it must be above 0")
        self.temperature = temperature

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        if self.training:
            scores = scores - torch.empty_like(scores).exponential_().log()
        soft = softmax(scores / self.temperature, mask)
        if not scores.shape[-1]:
            return Aligned(soft)
        places = torch.arange(scores.shape[-1], device=scores.device)
        hard = (places == soft.detach().argmax(-1, keepdim=True)) & dense(mask, scores)
        return Aligned(hard.to(soft.dtype) + (soft - soft.detach()))
