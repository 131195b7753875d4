"""Local alignments (Luong 2015, 1508.04025, section 3.2): a softmax inside a window of 2 W + 1 keys.

Positions count from 0. S is each sequence's own length; what lies outside it is ignored.
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.align.extent import dense, lengths
from regard.align.protocol import Align, Aligned
from regard.align.soft import softmax
from regard.masks import Mask
from regard.shapes import Query, Scores


class LocalMonotonic(Align):
    """local-m: query t reads the keys from t - W to t + W; the centre stays at the last key once t has passed it.

    The state is the number of queries before, `(batch,)`.

    Args:
        window: W, at least 0.
    """

    def __init__(self, window: int):
        super().__init__()
        self.window = _checked(window, 0)

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Tensor | None = None
    ) -> Aligned:
        batch, queries = scores.shape[0], scores.shape[-2]
        before = torch.zeros(batch, dtype=torch.int64, device=scores.device) if state is None else state
        steps = before.view(-1, *[1] * (scores.ndim - 2)) + torch.arange(queries, device=scores.device)
        centre = torch.minimum(steps, lengths(mask, scores) - 1)[..., None]
        near = (torch.arange(scores.shape[-1], device=scores.device) - centre).abs() <= self.window
        return Aligned(softmax(scores, near & dense(mask, scores)), before + queries)


class LocalPredictive(Align):
    """local-p: the query says where, p = S sigmoid(v . tanh(W_p q)) (equation 9).

    The softmax runs over the keys from p - W to p + W, and is then multiplied by exp(-(s - p)^2 / (2 (W / 2)^2))
    (equation 10), so that rows sum to less than 1.

    Args:
        query_width: of the queries.
        width: of the hidden layer.
        window: W, at least 1.
    """

    def __init__(self, query_width: int, width: int, window: int):
        super().__init__()
        self.window = _checked(window, 1)
        self.hidden = nn.Linear(query_width, width, bias=False)
        self.place = nn.Linear(width, 1, bias=False)

    def centre(self, query: Query, mask: Mask | None, scores: Scores) -> Tensor:
        """p of each query, `(*batch, query)`."""
        share = self.place(self.hidden(query).tanh())[..., 0].sigmoid()
        return lengths(mask, scores) * share

    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        """Raises ValueError without the query."""
        if query is None:
            raise ValueError("local-p places its window by the query; give it")
        distance = torch.arange(scores.shape[-1], device=scores.device) - self.centre(query, mask, scores)[..., None]
        near = distance.abs() <= self.window
        gauss = torch.exp(-2 * (distance / self.window).square())
        return Aligned(softmax(scores, near & dense(mask, scores)) * gauss)


def _checked(window: int, least: int) -> int:
    if window < least:
        raise ValueError(f"window is {window}; it must be at least {least}")
    return window
