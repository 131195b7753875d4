"""The weights of lookups, recomputed from their breakdown."""

import numpy as np

from regard.maps.breakdown import Breakdown, PlainScores, ScoreFactors
from regard.maps.lookups import Lookups


def scores_of(breakdown: Breakdown) -> np.ndarray:
    """From what a page is given, by the formulas: scale * q . k, or v . tanh(q + k), or the scores themselves."""
    match breakdown.of:
        case PlainScores(given):
            return given.astype(float)
        case ScoreFactors(query, key, scale, None):
            return np.einsum("lhtd,lhsd->lhts", query.astype(float), key.astype(float)) * scale
        case ScoreFactors(query, key, scale, energy):
            assert energy is not None
            return np.einsum("lhd,lhtsd->lhts", energy, np.tanh(query[..., :, None, :] + key[..., None, :, :])) * scale


def worked_out(found: Lookups) -> np.ndarray:
    breakdown = found.breakdown
    assert breakdown is not None
    return softmax(breakdown)


def softmax(breakdown: Breakdown) -> np.ndarray:
    assert breakdown.allowed is not None
    assert breakdown.softmax
    shares = np.exp(scores_of(breakdown)) * breakdown.allowed
    return shares / shares.sum(-1, keepdims=True)
