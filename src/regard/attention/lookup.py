"""The operation: a soft dictionary lookup.

`attend` is the definition. A `Lookup` is the same with the parts of a trained model: a memory that was prepared once,
an alignment that carries a state from query to query, a bias, dropout.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from regard.attention.align import Align, Draw, softmax
from regard.attention.checks import check
from regard.attention.masks import Mask, as_mask
from regard.attention.memory import Memory
from regard.attention.scores.protocol import Score, score_memory
from regard.kernels.dropout import dropout
from regard.kernels.product import by_group
from regard.shapes import Context, Float, Weights

Bias = Callable[[Sequence[int] | None, Sequence[int] | None], Tensor]
"""Heads and queries (None: all) -> numbers to add to their scores, broadcastable to `(*batch, query, key)`."""


def attend(
    query: Float[Tensor, "..."],
    key: Float[Tensor, "..."],
    value: Float[Tensor, "..."],
    *,
    score: Score,
    mask: Mask | Tensor | None = None,
    align: Callable[[Tensor, Mask | None], Tensor] = softmax,
) -> tuple[Context, Weights]:
    """Read a memory: score every key, turn the scores into weights, mix the values.

        e_ti = score(q_t, k_i)      a_t = align(e_t)      c_t = sum_i a_ti v_i

    Args:
        query: `(*batch, query, query_width)`.
        key, value: `(*batch, key, key_width)` and `(*batch, key, value_width)`.
        score: the score e; `regard.attention.scores` has the common ones.
        mask: True where a query may read a key, broadcastable to `(*batch, query, key)`. A query with no allowed key
            gets context 0 and weights 0. A key that no query may read has no influence, NaN included.
        align: from scores and mask to weights. Default softmax.

    Returns:
        context `(*batch, query, value_width)` and weights `(*batch, query, key)`, which have the dtype of the scores:
        float32 for products in float16 and for distances in half precision.

    Raises:
        ValueError: shapes, dtypes or devices do not fit together.
        TypeError: the mask is not boolean.
    """
    check(query, key, value, mask, score.widths)
    memory = Memory(key, value, None if mask is None else as_mask(mask))
    weights = align(score(query, score.prepare(memory.key)), memory.mask)
    return mix(weights, memory.value), weights


def mix(weights: Weights, value: Tensor, rate: float = 0.0) -> Context:
    """c_t = sum_i a_ti v_i, in the dtype of the values, with dropout of the weights at this rate. Several heads of
    weights may share a head of values."""
    weights = (dropout(weights, rate) if rate else weights).to(value.dtype)
    return weights @ value if weights.ndim < 4 else by_group(weights, value)


class Read(NamedTuple):
    """The result of a lookup: context `(*batch, query, value_width)` and the alignment's state. Weights, scores before
    the mask and draws are present if they were computed."""

    context: Context
    state: Any = None
    weights: Weights | None = None
    scores: Tensor | None = None
    draws: tuple[Draw, ...] = ()


class Lookup(NamedTuple):
    """Queries `(*batch, query, query_width)` that read a prepared memory.

    `state` is the alignment's, `bias` is added to the scores, `dropout` is the share of weights to set to 0.
    """

    score: Score
    align: Align
    query: Tensor
    memory: Memory
    state: Any = None
    bias: Bias | None = None
    dropout: float = 0.0

    def read(self) -> Read:
        """e_ti = score(q_t, k_i) + b_ti,   a_t = align(e_t),   c_t = sum_i a_ti v_i"""
        scores = score_memory(self.score, self.query, self.memory)
        scores = scores if self.bias is None else scores + self.bias(None, None)
        aligned = self.align(scores, self.memory.mask, self.query, self.state)
        draws = () if aligned.draw is None else (aligned.draw,)
        context = mix(aligned.weights, self.memory.value, self.dropout)
        return Read(context, aligned.state, aligned.weights, scores, draws)
