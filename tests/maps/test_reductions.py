"""Sums of maps: over words, rows, heads and layers, and their entropy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.maps import join_words, patch_weights, rollout, shares
from regard.maps.reductions import mean_entropies


def test_sum_over_source_mean_over_target():
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    joined = join_words(weights, [0, 0, 1], [0, 0, 1])
    np.testing.assert_allclose(joined, [[(0.3 + 0.8) / 2, (0.7 + 0.2) / 2], [1.0, 0.0]])


@settings(max_examples=50, deadline=None)
@given(st.permutations([0, 0, 1, 2, 2, 2, 3]), st.permutations([0, 1, 1, 2, 2]))
def test_rows_that_sum_to_one_still_do(source, target):
    weights = np.random.default_rng(3).dirichlet(np.ones(7), size=(2, 5))
    joined = join_words(weights, source, target)
    assert joined.shape == (2, 3, 4)
    np.testing.assert_allclose(joined.sum(-1), 1)


def test_one_piece_a_word_changes_nothing():
    weights = np.random.default_rng(5).random((3, 5))
    np.testing.assert_allclose(join_words(weights, range(5), range(3)), weights)


def test_nothing_stays_nothing():
    assert join_words(np.zeros((0, 3)), [0, 1, 1], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [([0, 1], r"source words are \[0, 1\] for 3 pieces"), ([0, -1, 1], "from 0 to 2"), ([0, 10**15, 2], "from 0 to 2")],
)
def test_refuses_bad_indices(words, message):
    with pytest.raises(ValueError, match=message):
        join_words(np.zeros((2, 3)), words, [0, 1])


def test_shares_by_hand():
    found = shares(np.array([[1.0, -3.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(found, [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_shares_that_sum_to_one_stay():
    weights = np.random.default_rng(1).dirichlet(np.ones(7), (2, 5))
    np.testing.assert_allclose(shares(weights), weights, rtol=1e-14)


def test_shares_of_no_row_and_no_column():
    assert shares(np.zeros((0, 3))).shape == (0, 3)
    assert shares(np.zeros((2, 0))).shape == (2, 0)


def test_rollout_by_hand():
    first = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    second = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    one = np.array([[0.75, 0.25], [0.25, 0.75]])
    two = np.array([[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(rollout(np.stack([first, second])), two @ one)


def test_layers_may_have_different_numbers_of_heads():
    one = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    two = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    np.testing.assert_allclose(rollout([one, two]), rollout(np.stack([one, two.repeat(2, 0)])))


def test_rows_of_a_rollout_sum_to_one():
    weights = np.random.default_rng(1).random((3, 2, 7, 7))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(rollout(weights).sum(-1), 1)


def test_a_model_that_looks_at_itself_alone():
    np.testing.assert_allclose(rollout(np.broadcast_to(np.eye(5), (3, 2, 5, 5))), np.eye(5))


def test_of_patches():
    found = patch_weights(np.array([0.5, 0.1, 0.1, 0.1, 0.0, 0.0, 0.2]), 2, 3)
    np.testing.assert_allclose(found, [[0.2, 0.2, 0.2], [0.0, 0.0, 0.4]])


def test_nothing_to_roll_out():
    with pytest.raises(ValueError, match="hold no layer"):
        rollout(np.zeros((0, 2, 3, 3)))
    with pytest.raises(ValueError, match="no head"):
        rollout(np.zeros((2, 0, 3, 3)))
    with pytest.raises(ValueError, match="cannot reshape"):
        patch_weights(np.zeros(5), 2, 3)


def by_hand(rows: list[list[float]]) -> float:
    """The mean over rows that read, term by term."""
    found = []
    for row in rows:
        total = math.fsum(row)
        if total > 0:
            found.append(-math.fsum(each / total * math.log2(each / total) for each in row if each > 0))
    return math.fsum(found) / len(found)


@pytest.mark.parametrize(
    ("rows", "bits"),
    [
        ([[1.0, 0.0, 0.0]], 0.0),
        ([[0.125] * 8], 3.0),
        ([[0.5, 0.25, 0.25]], 1.5),
        ([[0.5, 0.5], [1.0, 0.0]], 0.5),
        ([[0.5, 0.5], [0.0, 0.0]], 1.0),
        ([[0.2, 0.2]], 1.0),
        ([[0.9, 0.1]], 0.4689955935892812),
    ],
)
def test_golden_entropies(rows: list[list[float]], bits: float):
    assert mean_entropies(np.array(rows)) == pytest.approx(bits, abs=1e-15)


def test_entropies_of_many_maps_at_once():
    weights = np.random.default_rng(3).dirichlet(np.full(11, 0.3), size=(2, 3, 7))
    weights[1, 2, 4] = 0.0
    expected = [[by_hand(each.tolist()) for each in layer] for layer in weights]
    np.testing.assert_allclose(mean_entropies(weights), expected, rtol=1e-12)


def test_where_nothing_is_read_there_is_none():
    found = mean_entropies(np.stack([np.zeros((3, 5)), np.full((3, 5), 0.2)]))
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(math.log2(5))
    assert np.isnan(mean_entropies(np.zeros((2, 0, 5)))).all()
