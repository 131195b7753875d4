"""Alignment by other steps than a word's own."""

import numpy as np

from regard.experiments.structure import shift_rows


def test_a_word_is_given_the_weights_of_the_step_before_or_after():
    weights = np.arange(1.0, 7.0).reshape(3, 2)
    assert shift_rows(weights, 0).tolist() == weights.tolist()
    assert shift_rows(weights, 1).tolist() == [[0, 0], [1, 2], [3, 4]]
    assert shift_rows(weights, -1).tolist() == [[3, 4], [5, 6], [0, 0]]
