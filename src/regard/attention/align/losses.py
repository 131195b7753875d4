"""Loss terms that regularize attention weights. Each returns one number per sequence."""

import torch
from torch import Tensor

from regard.maps.reductions import logarithm, row_entropy
from regard.shapes import Ids, Numbers, Weights


def doubly_stochastic(weights: Weights, readable: Tensor | None = None) -> Numbers:
    """Return sum_i (1 - sum_t a_ti)^2: each key should get a total weight of 1.

    Xu 2015, 1502.03044, equation 14.

    Args:
        weights: `(*batch, query, key)`, zero for queries past the end of the output.
        readable: `(*batch, key)`, the keys that count. By default all.
    """
    missing = (1 - weights.sum(-2)).square()
    return (missing if readable is None else missing * readable).sum(-1)


def entropy(weights: Weights) -> Numbers:
    """Return -sum_t sum_i a_ti log a_ti, in nats; a weight of 0 adds 0.

    Adding it to a loss sharpens the weights, subtracting it spreads them.
    """
    return row_entropy(weights).sum(-1)


def coverage(weights: Weights) -> Numbers:
    """Return sum_t sum_i min(a_ti, sum_{u < t} a_ui): weight on keys read before.

    See 2017, 1704.04368, equation 12.
    """
    return weights.minimum(weights.cumsum(-2) - weights).sum((-2, -1))


def guidance(weights: Weights, links: Weights) -> Numbers:
    """Return -sum_t sum_i g_ti log a_ti: the weights should follow the given links.

    Chen 2016, 1607.01628, equation 5.

    Args:
        weights: `(*batch, query, key)`.
        links: g, of the shape of the weights; rows sum to 1, or to 0 where no link is
            known.
    """
    return -(links * logarithm(weights)).sum((-2, -1))


def diagonal(
    weights: Weights,
    queries: Ids,
    keys: Ids,
    spread: float = 0.2,
) -> Numbers:
    """Return sum_t sum_i a_ti (1 - exp(-(i/I - t/T)^2 / 2g^2)).

    This is weight far from the diagonal, for outputs in the order of their keys, such
    as transcripts (Tachibana 2018, 1710.08969, equation 6).

    Args:
        weights: `(*batch, query, key)`, zero for queries past the end of the output.
        queries: T, the number of queries of each sequence, `(*batch,)`.
        keys: I, likewise.
        spread: g, the width of the diagonal.
    """
    rows = torch.arange(weights.shape[-2], device=weights.device) / queries[..., None]
    columns = torch.arange(weights.shape[-1], device=weights.device) / keys[..., None]
    distance = columns[..., None, :] - rows[..., :, None]
    closeness = torch.exp(-distance.square() / (2 * spread**2))
    return (weights * (1 - closeness)).sum((-2, -1))
