"""Scores of pairs that are not a product of two sides."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.scores.protocol import Score, Sides, TanhSum, weight
from regard.shapes import Key, Query, Scores, wide


class Additive(TanhSum):
    """v^T tanh(W_q q + W_k k) (Bahdanau 2015, appendix A.1.2).

    Luong's concat score v^T tanh(W [q; k]) is the same function, with W = [W_q, W_k] (Luong 2015, equation 8). With
    `bias` it is v^T tanh(W_q q + W_k k + b) (See 2017, equation 1).
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        width: int,
        *,
        heads: int | None = None,
        bias: bool = False,
    ):
        super().__init__()
        self.query_width, self.key_width, self.heads, self.hidden_width = (
            query_width,
            key_width,
            heads,
            width,
        )
        self.query_weight = weight(heads, query_width, width)
        self.key_weight = weight(heads, key_width, width)
        energy = weight(heads, width, 1).squeeze(-1)
        self.energy = nn.Parameter(energy.detach().clone())
        self.bias = (
            nn.Parameter(torch.zeros(*(() if heads is None else (heads, 1)), width))
            if bias
            else None
        )

    def prepare(self, key: Key) -> Tensor:
        prepared = key @ self.key_weight
        return prepared if self.bias is None else prepared + self.bias

    def sides(self, query: Query, key: Key) -> Sides:
        return Sides(query @ self.query_weight, key, energy=self.energy)


class SoftCapped(Score):
    """cap tanh(e / cap), which keeps the scores e of another score within +-cap (Gemma 2, 2408.00118, section 2).

    Args:
        score: the score e.
        cap: the bound, above 0; 50 in the paper.
    """

    def __init__(self, score: Score, cap: float):
        super().__init__()
        if not cap > 0:
            raise ValueError(f"cap is {cap}; it must be above 0")
        self.score, self.cap = score, cap
        self.query_width, self.key_width, self.heads = (
            score.query_width,
            score.key_width,
            score.heads,
        )
        self.by_place, self.shares_keys = score.by_place, score.shares_keys

    def prepare(self, key: Key) -> Tensor:
        return self.score.prepare(key)

    def forward(self, query: Query, key: Key) -> Scores:
        return torch.tanh(self.score(query, key) / self.cap) * self.cap


class InverseDistance(Score):
    """-log(|q - k| + eps): under softmax the weights are proportional to 1 / (|q - k| + eps)."""

    def __init__(self, eps: float = 1e-3):
        super().__init__()
        if not eps > 0:
            raise ValueError(f"eps is {eps}; it must be above 0")
        self.eps = eps

    def forward(self, query: Query, key: Key) -> Scores:
        square = (
            (wide(query)[..., :, None, :] - wide(key)[..., None, :, :]).square().sum(-1)
        )
        same = square == 0  # where the root has no gradient
        distance = square.masked_fill(same, 1.0).sqrt().masked_fill(same, 0.0)
        return -(distance + self.eps).log()


class Location(Score):
    """Row i of W q scores position i, whatever its key (Luong 2015, equation 9), for at most `max_source` positions.

    A shorter source uses the first rows.
    """

    by_place = True

    def __init__(
        self,
        query_width: int,
        max_source: int,
        *,
        ignore_tail: bool = False,
        heads: int | None = None,
    ):
        super().__init__()
        self.query_width, self.max_source, self.ignore_tail = (
            query_width,
            max_source,
            ignore_tail,
        )
        self.heads = heads
        self.weight = weight(heads, query_width, max_source)

    def forward(self, query: Query, key: Key) -> Scores:
        """Raises ValueError for more than `max_source` keys; with `ignore_tail` the further keys score minus infinity
        instead."""
        size = key.shape[-2]
        if size > self.max_source and not self.ignore_tail:
            raise ValueError(
                f"{size} source positions, but location scores were made for at most {self.max_source}; "
                "raise max_source or set ignore_tail"
            )
        scores = query @ self.weight[..., :size]
        return functional.pad(scores, (0, size - scores.shape[-1]), value=-torch.inf)
