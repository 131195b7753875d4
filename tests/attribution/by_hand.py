"""Lookups worked out from what a page is given of them."""

import numpy as np

from regard.maps.breakdown import PlainScores, Sums, Workings
from regard.maps.lookups import Lookups


def scores_of(workings: Workings) -> np.ndarray:
    """From what a page is given, by the formulas: scale * q . k, or v . tanh(q + k), or the scores themselves."""
    match workings.of:
        case PlainScores(given):
            return given.astype(float)
        case Sums(query, key, scale, None):
            return np.einsum("lhtd,lhsd->lhts", query.astype(float), key.astype(float)) * scale
        case Sums(query, key, scale, energy):
            assert energy is not None
            return np.einsum("lhd,lhtsd->lhts", energy, np.tanh(query[..., :, None, :] + key[..., None, :, :])) * scale


def worked_out(found: Lookups) -> np.ndarray:
    workings = found.workings
    assert workings is not None
    return softmax(workings)


def softmax(workings: Workings) -> np.ndarray:
    assert workings.allowed is not None
    assert workings.softmax
    shares = np.exp(scores_of(workings)) * workings.allowed
    return shares / shares.sum(-1, keepdims=True)
