import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.maps import join_words


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
    [([0, 1], "2 source word indices for 3"), ([0, -1, 1], "from 0 to 2"), ([0, 10**15, 2], "from 0 to 2")],
)
def test_refuses_bad_indices(words, message):
    with pytest.raises(ValueError, match=message):
        join_words(np.zeros((2, 3)), words, [0, 1])
