"""The weights of lookups, recomputed from their breakdown."""

import numpy as np

from regard.maps.lookups import Breakdown, Lookups


def scores_of(breakdown: Breakdown) -> np.ndarray:
    """From what a page is given, by the formulas: scale * q . k, or v . tanh(q + k), or the scores themselves."""
    if breakdown.plain is not None:
        return breakdown.plain.astype(float)
    assert breakdown.query is not None
    assert breakdown.key is not None
    query, key, energy = breakdown.query.astype(float), breakdown.key.astype(float), breakdown.energy
    if energy is None:
        return np.einsum("lhtd,lhsd->lhts", query, key) * breakdown.scale
    hidden = np.tanh(query[..., :, None, :] + key[..., None, :, :])
    return np.einsum("lhd,lhtsd->lhts", energy, hidden) * breakdown.scale


def worked_out(found: Lookups) -> np.ndarray:
    breakdown = found.breakdown
    assert breakdown is not None
    return softmax(breakdown)


def softmax(breakdown: Breakdown) -> np.ndarray:
    assert breakdown.allowed is not None
    assert breakdown.softmax
    shares = np.exp(scores_of(breakdown)) * breakdown.allowed
    return shares / shares.sum(-1, keepdims=True)
