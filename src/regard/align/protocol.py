"""What every alignment is."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.masks import Mask
from regard.shapes import Query, Scores


class Aligned(NamedTuple):
    """What an alignment gives: weights `(*batch, query, key)`, its state after these queries, and a loss to add up."""

    weights: Tensor
    state: Any = None
    loss: Tensor | None = None


class Align(nn.Module, ABC):
    """Turns scores into weights. `query` is for alignments that place themselves by it; `state` is what an alignment
    carries from step to step, batch first: it comes in (None before the first query), goes out in `Aligned`, and is
    never kept on the module."""

    is_softmax = False
    """True when the weights are exactly `softmax(scores, mask)`, which a fused kernel may then compute unseen."""

    @abstractmethod
    def forward(
        self, scores: Scores, mask: Mask | None = None, query: Query | None = None, state: Any = None
    ) -> Aligned:
        """scores `(*batch, query, key)` -> weights of the same shape."""
