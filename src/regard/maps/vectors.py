"""Queries, keys and values for one lookup to be worked out: only those that give the weights they came with."""

import numpy as np
from jaxtyping import Float

from regard.maps.lookups import Vectors

MOST = 1_000_000
"""Numbers of all queries, keys and values; of more none are kept: each takes as much of a page as several weights."""
ROUNDING = 1e-3


def vectors_of(
    query: Float[np.ndarray, "layer head _target width"],
    key: Float[np.ndarray, "layer head source width"],
    value: Float[np.ndarray, "layer head source value_width"],
    scale: float,
    weights: Float[np.ndarray, "_layer _head _target _source"],
) -> Vectors | None:
    """The vectors of lookups with these weights, a key being allowed where any head reads it; None where there are more
    than `MOST` numbers, or where softmax(scale q . k) is not the weights: the score is another, or the alignment, or
    other queries and keys were given."""
    if (*query.shape[:3], key.shape[2]) != weights.shape or query.size + key.size + value.size > MOST:
        return None
    allowed = np.any(weights > 0, axis=(0, 1))
    scores = np.where(allowed, query @ key.swapaxes(-1, -2) * scale, -np.inf)
    greatest = scores.max(-1, keepdims=True, initial=-np.inf)
    shares = np.exp(scores - np.where(np.isfinite(greatest), greatest, 0.0))
    total = shares.sum(-1, keepdims=True)
    found = shares / np.where(total > 0, total, 1.0)  # a query that may read no key has no weights
    if np.abs(found - weights).max(initial=0.0) >= ROUNDING:
        return None
    return Vectors(query, key, value, scale, allowed)
