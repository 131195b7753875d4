"""Alignments that know where keys stand: local windows, and addressing by location.

Local alignments (Luong 2015, 1508.04025, section 3.2) are a softmax inside a window of
2 W + 1 keys. Positions count from 0. S is each sequence's own length; keys beyond it
are ignored. `Addressing` is that of a neural Turing machine.
"""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.align.hard import one_hot_first, stack_rows
from regard.attention.align.soft import (
    Align,
    Aligned,
    AlignInput,
    dense_mask,
    softmax,
)
from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores, to_float32

Row = Float[Tensor, "*batch key"]


class Local(Align):
    """A softmax inside a window around each query's own center.

    Args:
        window: W, at least `least`.
        least: The smallest window that the alignment supports.
    """

    def __init__(self, window: int, least: int):
        super().__init__()
        if window < least:
            raise ValueError(f"window is {window}; it must be at least {least}")
        self.window = window

    @abstractmethod
    def find_centers(self, inputs: AlignInput, lengths: Tensor) -> tuple[Tensor, Any]:
        """Return the centers of the windows and the state after these queries.

        Args:
            inputs: The input of the alignment.
            lengths: Lengths of the memory.
        """

    def window_weights(
        self,
        scores: Scores,
        distance: Tensor,
        allowed: Tensor,
    ) -> Tensor:
        """Return the weights of keys at these distances from the centers."""
        return softmax(scores, (distance.abs() <= self.window) & allowed)

    def forward(self, inputs: AlignInput) -> Aligned:
        scores = inputs.scores
        allowed = dense_mask(inputs.mask, scores)
        positions = torch.arange(scores.shape[-1], device=scores.device)
        # a memory is as long as up to the last key that a query may read
        ends = functional.pad(allowed * (positions + 1), (1, 0))
        centers, state = self.find_centers(inputs, ends.amax(-1))
        distance = positions - centers[..., None]
        return Aligned(self.window_weights(scores, distance, allowed), state)


class LocalMonotonic(Local):
    """local-m: query t reads the keys from t - W to t + W.

    The center stays at the last key once t has passed it. The state is the number of
    earlier queries, `(batch,)`.

    Args:
        window: W, at least 0.
    """

    def __init__(self, window: int):
        super().__init__(window, 0)

    def find_centers(self, inputs: AlignInput, lengths: Tensor) -> tuple[Tensor, Any]:
        *batch, queries, _ = inputs.scores.shape
        state = inputs.state
        if state is None:
            state = lengths.new_zeros(batch[0])
        first = state.view(-1, *[1] * len(batch))
        steps = first + torch.arange(queries, device=lengths.device)
        return torch.minimum(steps, lengths - 1), state + queries


class LocalPredictive(Local):
    """local-p: each query predicts its own center, p = S sigmoid(v . tanh(W_p q)).

    The softmax runs over the keys from p - W to p + W (equation 9) and is then
    multiplied by exp(-(s - p)^2 / (2 (W / 2)^2)) (equation 10), so that rows sum to
    less than 1.

    Args:
        query_width: Width of the queries.
        width: Width of the hidden layer.
        window: W, at least 1.
    """

    def __init__(self, query_width: int, width: int, window: int):
        super().__init__(window, 1)
        self.query_width = query_width
        self.hidden = nn.Linear(query_width, width, bias=False)
        self.place = nn.Linear(width, 1, bias=False)

    def find_centers(self, inputs: AlignInput, lengths: Tensor) -> tuple[Tensor, None]:
        """Return the centers.

        Raises:
            ValueError: There are no queries.
        """
        if inputs.query is None:
            raise ValueError("local-p needs the queries to predict its windows")
        return self.predict_centers(inputs.query, lengths), None

    def predict_centers(self, query: Query, lengths: Tensor) -> Tensor:
        """Return the center p of each query, `(*batch, query)`."""
        share = self.place(self.hidden(query).tanh())[..., 0].sigmoid()
        # half precision cannot tell positions apart beyond 256
        return lengths * to_float32(share)

    def window_weights(
        self,
        scores: Scores,
        distance: Tensor,
        allowed: Tensor,
    ) -> Tensor:
        # a query that is NaN and may read nothing has weights 0
        distance = distance.masked_fill(~allowed, 0.0)
        weights = super().window_weights(scores, distance, allowed)
        gauss = torch.exp(-2 * (distance / self.window).square())
        return weights * gauss.to(weights.dtype)


class Addressing(Align):
    """Addressing by content and by location (Graves 2014, 1410.5401, section 3.3).

    Each query's weights come from its scores, from its own last numbers and from the
    previous query's weights:

        w_c = softmax(scores)                      by content, equation 5
        w_g = g w_c + (1 - g) w_{t-1}              interpolation, equation 7
        w~(i) = sum_j w_g(j) s(i - j)              circular shift, equation 8
        w(i) = w~(i)^gamma / sum_j w~(j)^gamma     sharpening, equation 9

    The last `width` numbers of a query hold g (through a sigmoid), s (through a
    softmax, for the shifts from `-shift` to `shift`) and gamma (1 + softplus). The
    state is the last weights, `(*batch, key)`. The paper does not define the weights
    before the first query; here they are all on the first key. Masked keys get no
    weight but keep their place in the ring: sharpening spreads the weight that moves
    onto them over the others.

    Args:
        shift: The largest move of one query, in either direction.
    """

    supports_growing = False

    def __init__(self, shift: int = 1):
        super().__init__()
        self.shift = shift
        self.width = 2 * shift + 3

    def forward(self, inputs: AlignInput) -> Aligned:
        """Turn scores into weights.

        Raises:
            ValueError: `query` is None: its last numbers are needed.
        """
        scores, mask, query, state = inputs
        if query is None:
            raise ValueError(
                "addressing needs the queries: their last numbers define the move"
            )
        numbers = to_float32(query[..., -self.width :])
        gates, moves, powers = numbers.split([1, 2 * self.shift + 1, 1], -1)
        gates = gates.sigmoid()
        moves = moves.softmax(-1)
        powers = 1 + functional.softplus(powers)
        content = softmax(to_float32(scores), mask)
        last = one_hot_first(content) if state is None else state
        rows = []
        queries = scores.shape[-2] if scores.shape[-1] else 0
        row_mask = None
        for index in range(queries):
            mixed = torch.lerp(last, content[..., index, :], gates[..., index, :])
            moved = shift_weights(mixed, moves[..., index, :])
            if mask is not None:
                row_mask = mask.select_queries([index])
            last = sharpen(moved, powers[..., index, :], row_mask)
            rows.append(last)
        return Aligned(stack_rows(rows, scores), last)


def shift_weights(weights: Row, moves: Float[Tensor, "*batch move"]) -> Row:
    """Shift weights around the ring: w~(i) = sum_j w(j) s(i - j) (equation 8).

    Indices are modulo the number of keys.

    Args:
        moves: Probabilities of an odd number of moves. The middle one is that of
            staying; those after it move forward.

    Raises:
        ValueError: There are fewer keys than the furthest move.
    """
    reach = moves.shape[-1] // 2
    keys = weights.shape[-1]
    if reach > keys:
        raise ValueError(
            f"{keys} keys, fewer than the shift of {reach}; it would wrap more than once"
        )
    ends = weights[..., keys - reach :], weights, weights[..., :reach]
    neighbors = torch.cat(ends, -1).unfold(-1, 2 * reach + 1, 1)
    return (neighbors @ moves.flip(-1)[..., None])[..., 0]


def sharpen(
    weights: Row,
    power: Float[Tensor, "*batch 1"],
    mask: Mask | None = None,
) -> Row:
    """Return w(i)^gamma / sum_j w(j)^gamma over the allowed keys (equation 9).

    It uses logarithms, since the powers of many small, even weights would underflow.
    """
    scores = power * (weights + torch.finfo(weights.dtype).tiny).log()
    return softmax(scores[..., None, :], mask)[..., 0, :]
