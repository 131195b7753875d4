"""Features of past weights, added to a score's prepared keys.

The past is a tensor `(*batch, key)`. It travels with the alignment's state and is never
stored on the module.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.align import Align
from regard.attention.align.soft import pad_keys
from regard.attention.attend import Attend, Lookup, Read, mix
from regard.attention.memory import Memory, expect_size
from regard.attention.scores import Score, TanhSum
from regard.shapes import Float

Past = Float[Tensor, "*batch key"]
Features = Float[Tensor, "*batch key width"]


class History(nn.Module, ABC):
    """Features of each key from the weights of earlier queries."""

    width: int | None = None
    """Width of the prepared keys that the features are added to; None if unknown."""

    @abstractmethod
    def forward(self, past: Past) -> Features:
        """Return the features to add to the prepared keys."""

    @abstractmethod
    def update(self, past: Past, weights: Past) -> Past:
        """Return the past after one more query with these weights."""


class Coverage(History):
    """w_c c_i, where c_i is the total weight of key i so far (See 2017, 1704.04368).

    Equations 10 and 11.

    Args:
        width: Width of the prepared keys, the hidden width of an additive score.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, past: Past) -> Features:
        return past[..., None] * self.weight

    def update(self, past: Past, weights: Past) -> Past:
        return past + weights


class LocationAware(History):
    """U f_i, where f = F * a_{t-1} convolves the last weights (Chorowski 2015, 1506.07503).

    Equation 8.

    Args:
        width: Width of the prepared keys, the hidden width of an additive score.
        filters: Number of filters F.
        kernel: Length of the filters, odd.
    """

    def __init__(self, width: int, filters: int = 10, kernel: int = 21):
        super().__init__()
        if not kernel % 2:
            raise ValueError(
                f"kernel is {kernel}; it must be odd, so that it has a middle"
            )
        self.width = width
        self.filters = nn.Conv1d(
            1,
            filters,
            kernel,
            padding=kernel // 2,
            bias=False,
        )
        self.linear = nn.Linear(filters, width, bias=False)

    def forward(self, past: Past) -> Features:
        if not past.numel():
            return past.new_zeros(*past.shape, self.linear.out_features)
        features = self.filters(past.reshape(-1, 1, past.shape[-1])).mT
        return self.linear(features).view(*past.shape, -1)

    def update(self, past: Past, weights: Past) -> Past:
        return weights


class SequentialAttend(Attend):
    """A lookup of one query after another, each with the history of those before it.

    The state is the history and the alignment's own state.

    Raises:
        ValueError: The score is not additive, so there is no sum to add the history to.
    """

    fused = False
    constant_keys = False

    def __init__(
        self,
        score: Score,
        history: History,
        align: Align | None = None,
        *,
        dropout: float = 0.0,
    ):
        super().__init__(score, align, dropout=dropout)
        if not isinstance(score, TanhSum):
            raise ValueError(
                "a history adds to the sum in an additive score; "
                f"{type(score).__name__} has none"
            )
        name = f"the history {type(history).__name__}"
        expect_size(name, history.width, "the score Additive", score.hidden_width)
        self.history = history

    def prepare(self, memory: Memory) -> Memory:
        # the keys change with every query, so their exponentials would be wrong
        prepared = super().prepare(memory)
        return replace(prepared, exponentials=None, zero_masked=False)

    def compute(self, lookup: Lookup) -> Read:
        query = lookup.query
        memory = lookup.memory
        keys = memory.key.shape[-2]
        past, state = lookup.state or (query.new_zeros(memory.key.shape[:-1]), None)
        past = pad_keys(past, keys)
        empty = query.new_zeros(*query.shape[:-2], 0, keys)
        weights = [empty]
        scores = [empty]
        draws = []
        for index in range(query.shape[-2]):
            step = self._select_query(lookup, index, past)
            read = step._replace(state=state).read()
            assert read.weights is not None
            assert read.scores is not None
            past = self.history.update(past, read.weights[..., 0, :])
            state = read.state
            weights.append(read.weights)
            scores.append(read.scores)
            draws.extend(read.draws)
        joined = torch.cat(weights, -2)
        context = mix(joined, memory.value, lookup.dropout)
        return Read(
            context,
            (past, state),
            joined,
            torch.cat(scores, -2),
            tuple(draws),
        )

    def _select_query(self, lookup: Lookup, index: int, past: Past) -> Lookup:
        """Return the lookup of one query, with the history added to the keys."""
        memory = lookup.memory
        bias = lookup.bias
        mask = memory.mask and memory.mask.select_queries([index])
        key = memory.key + self.history(past)
        memory = replace(memory, key=key, mask=mask, zero_masked=False)
        return lookup._replace(
            query=lookup.query[..., index, None, :],
            memory=memory,
            bias=None if bias is None else lambda heads, rows: bias(heads, [index]),
            dropout=0.0,
        )
