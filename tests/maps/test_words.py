import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.maps import Alignment, join_words, word_alignment


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


def test_labels_are_joined_in_order():
    alignment = Alignment(np.full((2, 3), 0.25), ("Wirt", "schaft", "."), ("econ", "omy"))
    words = word_alignment(alignment, [0, 0, 1], [0, 0])
    assert words.source == ("Wirtschaft", ".")
    assert words.target == ("economy",)
    np.testing.assert_allclose(words.weights, [[0.5, 0.25]])


def test_nothing_stays_nothing():
    assert join_words(np.zeros((0, 3)), [0, 1, 1], []).shape == (0, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [([0, 1], "2 source word indices for 3"), ([0, -1, 1], "negative"), ([0, 2, 2], "source word 1 has no piece")],
)
def test_refuses_bad_indices(words, message):
    with pytest.raises(ValueError, match=message):
        join_words(np.zeros((2, 3)), words, [0, 1])


def test_a_huge_index_is_refused_without_allocating_for_it():
    with pytest.raises(ValueError, match="source word 1 has no piece"):
        join_words(np.zeros((1, 2)), [0, 10**15], [0])
