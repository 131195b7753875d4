"""Local alignments (Luong 2015, 1508.04025, section 3.2): a softmax inside a window of 2 W + 1 keys.

Positions count from 0. S is each sequence's own length; keys beyond it are ignored.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.align.protocol import Align, Aligned, dense, lengths
from regard.attention.align.soft import softmax
from regard.attention.masks import Mask
from regard.kernels.windows import around, fewer_is_faster, picking_is_faster
from regard.shapes import Key, Query, Scores, wide


class Near(NamedTuple):
    """The windows of some queries: the positions of their keys `(*batch, query, near)`, a function from the scores of
    these keys to their weights, and the state after these queries."""

    places: Tensor
    weigh: Callable[[Tensor], Tensor]
    state: Any = None


class Local(Align):
    """A softmax inside a window around each query's own centre.

    Args:
        window: W, at least `least`.
    """

    def __init__(self, window: int, least: int):
        super().__init__()
        if window < least:
            raise ValueError(f"window is {window}; it must be at least {least}")
        self.window = window

    @abstractmethod
    def centred(
        self,
        shape: torch.Size,
        extent: Tensor,
        query: Query | None = None,
        state: Any = None,
    ) -> tuple[Tensor, Any]:
        """Centres of the windows, for queries of shape `(*batch, query)` and memories of length `extent`; and the state
        after these queries."""

    def within(self, scores: Scores, distance: Tensor, allowed: Tensor) -> Tensor:
        """Weights of the keys at these distances from the centres."""
        return softmax(scores, (distance.abs() <= self.window) & allowed)

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Any = None,
    ) -> Aligned:
        if fewer_is_faster(scores, 2 * self.window + 1):
            near = self.near(scores, mask, query, state)
            weights = near.weigh(scores.gather(-1, near.places))
            return Aligned(
                torch.zeros_like(scores).scatter_(-1, near.places, weights), near.state
            )
        centre, state = self.centred(
            scores.shape[:-1], lengths(mask, scores), query, state
        )
        distance = (
            torch.arange(scores.shape[-1], device=scores.device) - centre[..., None]
        )
        return Aligned(self.within(scores, distance, dense(mask, scores)), state)

    def picks(self, query: Query, key: Key) -> bool:
        """Whether it is faster to score each query against the keys of its window only."""
        return picking_is_faster(query, key, 2 * self.window + 1)

    def near(
        self, like: Tensor, mask: Mask | None, query: Query | None, state: Any = None
    ) -> Near:
        """Windows of the queries whose scores have the shape of `like`, `(*batch, query, key)`."""
        centre, state = self.centred(like.shape[:-1], lengths(mask, like), query, state)
        places = around(centre, self.window, like.shape[-1])
        distance = places - centre[..., None]
        places = places.expand(*like.shape[:-1], places.shape[-1])
        allowed = dense(mask, like).expand(like.shape).gather(-1, places)
        return Near(
            places, partial(self._weighed, distance=distance, allowed=allowed), state
        )

    def _weighed(self, scores: Scores, distance: Tensor, allowed: Tensor) -> Tensor:
        """Weights of a window. A key with score minus infinity gets none, as in the path that scores all keys."""
        return self.within(scores, distance, allowed & (scores != -torch.inf))


class LocalMonotonic(Local):
    """local-m: query t reads the keys from t - W to t + W. The centre stays at the last key once t has passed it.

    The state is the number of earlier queries, `(batch,)`.

    Args:
        window: W, at least 0.
    """

    def __init__(self, window: int):
        super().__init__(window, 0)

    def centred(
        self,
        shape: torch.Size,
        extent: Tensor,
        query: Query | None = None,
        state: Any = None,
    ) -> tuple[Tensor, Tensor]:
        batch, queries = shape[0], shape[-1]
        before = (
            torch.zeros(batch, dtype=torch.int64, device=extent.device)
            if state is None
            else state
        )
        steps = before.view(-1, *[1] * (len(shape) - 1)) + torch.arange(
            queries, device=extent.device
        )
        return torch.minimum(steps, extent - 1), before + queries


class LocalPredictive(Local):
    """local-p: each query predicts its own centre, p = S sigmoid(v . tanh(W_p q)) (equation 9).

    The softmax runs over the keys from p - W to p + W and is then multiplied by exp(-(s - p)^2 / (2 (W / 2)^2))
    (equation 10), so that rows sum to less than 1.

    Args:
        query_width: width of the queries.
        width: width of the hidden layer.
        window: W, at least 1.
    """

    def __init__(self, query_width: int, width: int, window: int):
        super().__init__(window, 1)
        self.query_width = query_width
        self.hidden = nn.Linear(query_width, width, bias=False)
        self.place = nn.Linear(width, 1, bias=False)

    def centred(
        self,
        shape: torch.Size,
        extent: Tensor,
        query: Query | None = None,
        state: Any = None,
    ) -> tuple[Tensor, None]:
        """Raises ValueError if `query` is None."""
        if query is None:
            raise ValueError("local-p needs the queries to predict its windows")
        return self.centre(query, extent), None

    def centre(self, query: Query, extent: Tensor) -> Tensor:
        """Centre p of each query, `(*batch, query)`, in memories of length `extent`."""
        share = self.place(self.hidden(query).tanh())[..., 0].sigmoid()
        # half precision cannot tell positions apart beyond 256
        return extent * wide(share)

    def within(self, scores: Scores, distance: Tensor, allowed: Tensor) -> Tensor:
        distance = distance.masked_fill(
            ~allowed, 0.0
        )  # a query that is NaN and may read nothing has weights 0
        weights = super().within(scores, distance, allowed)
        return weights * torch.exp(-2 * (distance / self.window).square()).to(
            weights.dtype
        )
