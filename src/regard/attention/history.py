"""Features of past weights, added to a score's prepared keys.

The past is a tensor `(*batch, key)`. It travels with the alignment's state and is never stored on the module.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.align import Align
from regard.attention.align.protocol import reaching
from regard.attention.checks import expect_size
from regard.attention.lookup import Lookup, Read, mix
from regard.attention.memory import Memory
from regard.attention.module import Attend
from regard.attention.scores.protocol import Score, TanhSum
from regard.shapes import Float

Past = Float[Tensor, "*batch key"]
Addition = Float[Tensor, "*batch key width"]


class History(nn.Module, ABC):
    """Features of each key from the weights of earlier queries."""

    width: int | None = None
    """Width of the prepared keys that the features are added to; None if it is not known."""

    @abstractmethod
    def forward(self, past: Past) -> Addition:
        """The features to add to the prepared keys, `(*batch, key, width)`."""

    @abstractmethod
    def after(self, past: Past, weights: Past) -> Past:
        """The past after one more query with these weights."""


class Coverage(History):
    """w_c c_i, where c_i is the total weight of key i so far (See 2017, 1704.04368, equations 10 and 11).

    Args:
        width: width of the prepared keys, the hidden width of an additive score.
    """

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(
            torch.empty(width).uniform_(-(width**-0.5), width**-0.5)
        )

    def forward(self, past: Past) -> Addition:
        return past[..., None] * self.weight

    def after(self, past: Past, weights: Past) -> Past:
        return past + weights


class LocationAware(History):
    """U f_i, where f = F * a_{t-1} convolves the previous query's weights (Chorowski 2015, 1506.07503, equation 8).

    Args:
        width: width of the prepared keys, the hidden width of an additive score.
        filters, kernel: number and length of the filters F; the length is odd.
    """

    def __init__(self, width: int, filters: int = 10, kernel: int = 21):
        super().__init__()
        if not kernel % 2:
            raise ValueError(
                f"kernel is {kernel}; it must be odd, so that it has a middle"
            )
        self.width = width
        self.filters = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.linear = nn.Linear(filters, width, bias=False)

    def forward(self, past: Past) -> Addition:
        if not past.numel():
            return past.new_zeros(*past.shape, self.linear.out_features)
        features = self.filters(past.reshape(-1, 1, past.shape[-1])).mT
        return self.linear(features).view(*past.shape, -1)

    def after(self, past: Past, weights: Past) -> Past:
        return weights


class AttendInTurn(Attend):
    """Read with one query after another, each with the history of those before it. The state is the history and the
    alignment's own state.

    Raises:
        ValueError: the score is not additive, so there is no sum to add the history to.
    """

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
                f"a history adds to the sum in an additive score; {type(score).__name__} has none"
            )
        expect_size(
            f"the history {type(history).__name__}",
            history.width,
            "the score Additive",
            score.hidden_width,
        )
        self.history = history

    def prepare(self, memory: Memory) -> Memory:
        return replace(
            super().prepare(memory), exponentials=None, clean=False
        )  # the keys change with every query

    def compute(self, lookup: Lookup, *, weights: bool) -> Read:
        query, memory = lookup.query, lookup.memory
        nothing = query.new_zeros(*query.shape[:-2], 0, memory.key.shape[-2])
        past, inner = (
            (query.new_zeros(memory.key.shape[:-1]), None)
            if lookup.state is None
            else lookup.state
        )
        past, reads = (
            reaching(past, memory.key.shape[-2]),
            [Read(nothing, None, nothing, nothing)],
        )
        for place, one in enumerate(query.split(1, -2) if query.shape[-2] else ()):
            mask = None if memory.mask is None else memory.mask.of_query(place)
            moved = replace(
                memory, key=memory.key + self.history(past), mask=mask, clean=False
            )
            bias = (
                None
                if lookup.bias is None
                else lambda heads, rows, at=place: lookup.bias(heads, [at])
            )
            read = lookup._replace(
                query=one, memory=moved, state=inner, bias=bias, dropout=0.0
            ).read()
            assert read.weights is not None
            past, inner = self.history.after(past, read.weights[..., 0, :]), read.state
            reads.append(read)
        found, scores = (
            torch.cat([each[part] for each in reads], -2) for part in (2, 3)
        )
        draws = tuple(draw for each in reads for draw in each.draws)
        return Read(
            mix(found, memory.value, lookup.dropout),
            (past, inner),
            found,
            scores,
            draws,
        )


def attend_with(
    history: History | None, score: Score, align: Align | None = None
) -> Attend:
    """The lookup of a score and an alignment, with a history if there is one."""
    return (
        Attend(score, align) if history is None else AttendInTurn(score, history, align)
    )
