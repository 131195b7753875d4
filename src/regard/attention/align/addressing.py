"""Addressing by content and by location (Graves 2014, 1410.5401, section 3.3). From the second query on, a head can
keep reading where it read last or move from there."""

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.align.protocol import Align, Aligned
from regard.attention.align.soft import softmax
from regard.attention.masks import Mask
from regard.shapes import Float, Query, Scores, wide


class Addressing(Align):
    """Compute each query's weights from its scores, from its own last numbers and from the previous query's weights:

        w_c = softmax(scores)                      by content, equation 5
        w_g = g w_c + (1 - g) w_{t-1}              interpolation, equation 7
        w~(i) = sum_j w_g(j) s(i - j)              circular shift, equation 8
        w(i) = w~(i)^gamma / sum_j w~(j)^gamma     sharpening, equation 9

    The last `width` numbers of a query hold g (through a sigmoid), s (through a softmax, for the shifts from `-shift`
    to `shift`) and gamma (1 + softplus). The state is the last weights, `(*batch, key)`. The paper does not define the
    weights before the first query; here they are all on the first key. Masked keys get no weight but keep their place
    in the ring: sharpening spreads the weight that moves onto them over the other keys.

    Args:
        shift: the largest move of one query, in either direction.
    """

    over_growing = False

    def __init__(self, shift: int = 1):
        super().__init__()
        self.shift, self.width = shift, 2 * shift + 3

    def forward(
        self,
        scores: Scores,
        mask: Mask | None = None,
        query: Query | None = None,
        state: Tensor | None = None,
    ) -> Aligned:
        """Raises ValueError if `query` is None: its last numbers are needed."""
        if query is None:
            raise ValueError(
                "addressing needs the queries: their last numbers define the move"
            )
        gates, moves, powers = wide(query[..., -self.width :]).split(
            [1, 2 * self.shift + 1, 1], -1
        )
        content, moves = softmax(wide(scores), mask), moves.softmax(-1)
        gates, powers = gates.sigmoid(), 1 + functional.softplus(powers)
        last, rows = at_the_first(content) if state is None else state, []
        for place in range(scores.shape[-2] if scores.shape[-1] else 0):
            mixed = torch.lerp(last, content[..., place, :], gates[..., place, :])
            moved = shifted(mixed, moves[..., place, :])
            last = sharpened(
                moved,
                powers[..., place, :],
                None if mask is None else mask.of_query(place),
            )
            rows.append(last)
        weights = torch.stack(rows, -2) if rows else torch.zeros_like(scores)
        return Aligned(weights.to(scores.dtype), last)


def shifted(
    weights: Float[Tensor, "*batch key"], moves: Float[Tensor, "*batch move"]
) -> Float[Tensor, "*batch key"]:
    """Shift weights around the ring: w~(i) = sum_j w(j) s(i - j), indices modulo the number of keys (equation 8). The
    middle of the odd number of `moves` is the probability of staying; those after it move forward. Raises ValueError if
    there are fewer keys than the furthest move."""
    reach, keys = moves.shape[-1] // 2, weights.shape[-1]
    if reach > keys:
        raise ValueError(
            f"{keys} keys, fewer than the shift of {reach}; it would wrap more than once"
        )
    around = [
        weights.narrow(-1, keys - reach, reach),
        weights,
        weights.narrow(-1, 0, reach),
    ]
    windows = torch.cat(around, -1).unfold(-1, 2 * reach + 1, 1)
    return (windows @ moves.flip(-1)[..., None])[..., 0]


def sharpened(
    weights: Float[Tensor, "*batch key"],
    power: Float[Tensor, "*batch 1"],
    mask: Mask | None = None,
) -> Float[Tensor, "*batch key"]:
    """w(i)^gamma / sum_j w(j)^gamma over the keys that may be read (equation 9). Computed with logarithms, since the
    powers of many small, even weights would underflow to 0."""
    logarithms = (weights + torch.finfo(weights.dtype).tiny).log()
    return softmax((power * logarithms)[..., None, :], mask)[..., 0, :]


def at_the_first(scores: Scores) -> Float[Tensor, "*batch key"]:
    """All weight on the first key."""
    last = scores.new_zeros(*scores.shape[:-2], scores.shape[-1])
    last[..., :1] = 1.0
    return last
