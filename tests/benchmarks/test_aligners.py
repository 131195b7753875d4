"""The statistical aligners beside which networks are measured."""

import math

import numpy as np

from benchmarks.aligners import NONE, TENSION, both_ways, model_one, priors

TEXT = [("the dog", "der hund"), ("the cat", "die katze"), ("a dog", "ein hund"), ("a cat", "eine katze")]


def test_words_that_come_together_are_linked():
    """Brown 1993, model 1."""
    forward, backward = both_ways(TEXT, TEXT[:1])
    assert (1, 1) in forward[0]
    assert (1, 1) in backward[0]


def test_near_the_diagonal():
    """Dyer 2013, equations 1 to 3: of two words that are equally probable the nearer one is linked, by the prior
    probabilities after one sentence."""
    assert model_one([("a b", "x y")], [("a b", "x y")]) == [frozenset({(0, 0), (0, 1)})]
    assert model_one([("a b", "x y")], [("a b", "x y")], TENSION) == [frozenset({(0, 0), (1, 1)})]


def test_prior_probabilities():
    near = np.array([[math.exp(-TENSION * abs(i / 3 - j / 2)) for i in (1, 2, 3)] for j in (1, 2)])
    expected = (1 - NONE) * near / near.sum(1, keepdims=True)
    np.testing.assert_allclose(np.array(priors(3, 2, TENSION))[:, :3], expected)
    np.testing.assert_allclose(np.array(priors(3, 2, TENSION)).sum(1), 1.0)
