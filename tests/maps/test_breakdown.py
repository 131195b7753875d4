"""What weights are made of, as arrays: scores by their formulas, and parts of them."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

from regard.maps.breakdown import Breakdown, PlainScores, ScoreFactors, is_softmax
from regard.maps.lookups import Lookups, select_rows

RANDOM = default_rng(3)
QUERY, KEY = RANDOM.normal(size=(2, 3, 5, 11)), RANDOM.normal(size=(2, 3, 7, 11))
ENERGY, VALUE = RANDOM.normal(size=(2, 3, 11)), RANDOM.normal(size=(2, 3, 7, 2))


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    shares = np.exp(scores) * allowed
    total = shares.sum(-1, keepdims=True)
    return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)


@pytest.mark.parametrize("energy", [None, ENERGY])
def test_a_score_is_its_sum_one_by_one(energy: np.ndarray | None):
    found = ScoreFactors(QUERY, KEY, 0.5, energy).scores()
    assert found.shape == (2, 3, 5, 7)
    for layer, head, target, source in ((0, 0, 0, 0), (1, 2, 4, 6), (0, 1, 3, 2)):
        q, k = QUERY[layer, head, target], KEY[layer, head, source]
        if energy is None:
            expected = math.fsum(a * b for a, b in zip(q, k, strict=True))
        else:
            expected = math.fsum(v * math.tanh(a + b) for v, a, b in zip(energy[layer, head], q, k, strict=True))
        assert found[layer, head, target, source] == pytest.approx(0.5 * expected, abs=1e-12)


@pytest.mark.parametrize(
    "of",
    [ScoreFactors(QUERY, KEY), ScoreFactors(QUERY, KEY, 1.0, ENERGY), PlainScores(RANDOM.normal(size=(2, 3, 5, 7)))],
)
def test_parts_and_places_behind(of: ScoreFactors | PlainScores):
    breakdown = Breakdown(of, VALUE)
    rows = breakdown.select_rows(slice(1, 4))
    np.testing.assert_allclose(rows.of.scores(), of.scores()[:, :, 1:4], atol=1e-12)
    more = Breakdown(of, VALUE, np.tri(5, 7) > 0).pad_sources(2)
    assert (more.of.shape, more.value.shape) == ((2, 3, 5, 9), (2, 3, 9, 2))
    np.testing.assert_allclose(more.of.scores()[..., :7], of.scores(), atol=1e-12)
    np.testing.assert_array_equal(more.allowed, np.pad(np.tri(5, 7) > 0, [(0, 0), (0, 2)]))
    assert breakdown.pad_sources(2).allowed is not None
    assert breakdown.size == VALUE.size + sum(each.size for each in of.arrays().values())


def test_no_rows_have_no_scores():
    assert ScoreFactors(QUERY[:, :, :0], KEY, 1.0, ENERGY).scores().shape == (2, 3, 0, 7)


def test_what_a_softmax_is():
    scores, allowed = ScoreFactors(QUERY, KEY).scores(), np.tri(5, 7, -1) > 0  # the first query may read nothing
    weights = softmax(scores, allowed)
    assert not weights[:, :, 0].any()
    assert is_softmax(scores, allowed, weights)
    assert not is_softmax(scores, np.ones((5, 7), bool), weights)
    assert not is_softmax(2 * scores, allowed, weights)
    assert not is_softmax(scores, allowed, weights**2)


def test_rows_of_lookups_keep_their_breakdown():
    breakdown = Breakdown(ScoreFactors(QUERY, KEY, 1.0, ENERGY), VALUE, np.tri(5, 7) > 0)
    weights = softmax(breakdown.of.scores(), np.tri(5, 7) > 0)
    lookups = Lookups(weights, tuple("abcdefg"), tuple("vwxyz"), breakdown=breakdown)
    found = select_rows(lookups, slice(2, 4), ("x", "y"))
    assert found.breakdown is not None
    assert found.breakdown.allowed is not None
    np.testing.assert_allclose(softmax(found.breakdown.of.scores(), found.breakdown.allowed), found.weights, atol=1e-6)
