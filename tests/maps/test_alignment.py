import numpy as np
import pytest

from regard.maps import Alignment, DocumentWeights, TextWeights, average_heads


def test_keeps_a_read_only_copy():
    given = np.full((2, 3), 1 / 3, dtype=np.float32)
    alignment = Alignment(given, ("a", "b", "c"), ("x", "y"))
    given[0, 0] = 7
    assert alignment.weights.dtype == np.float64
    np.testing.assert_allclose(alignment.weights, 1 / 3, rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):
        alignment.weights[0, 0] = 1


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_no_rows_or_no_columns(shape):
    alignment = Alignment(np.zeros(shape), ("s",) * shape[1], ("t",) * shape[0])
    assert alignment.weights.shape == shape


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\).*expected \(2, 3\)"),
        (np.zeros(3), r"shape \(3,\)"),
        ([[0, 0, 0], [0, float("nan"), 0]], r"weights have nan at index \(1, 1\); expected finite"),
        ([[0, 0, float("inf")], [0, 0, 0]], r"weights have inf at index \(0, 2\)"),
        ([[0, 0, 0], [-0.5, 0, 0]], r"weights have -0.5 at index \(1, 0\)"),
    ],
)
def test_refuses_in_one_line(weights, message):
    with pytest.raises(ValueError, match=message) as caught:
        Alignment(np.array(weights), ("a", "b", "c"), ("x", "y"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weights", "words", "message"),
    [
        (np.zeros(2), (np.zeros(1),), r"weights of sentences have shape \(2,\); expected \(1\)"),
        (np.zeros(1), (), "zip"),
        (np.zeros(1), (np.zeros(2),), r"weights of words have shape \(2,\)"),
        (np.array([-1.0]), (np.zeros(1),), "expected finite and not negative"),
    ],
)
def test_a_document_fits_its_weights(weights: np.ndarray, words: tuple[np.ndarray, ...], message: str):
    with pytest.raises(ValueError, match=message):
        DocumentWeights((("a",),), weights, words)


def test_weights_of_a_text_are_finite_and_one_each():
    with pytest.raises(ValueError, match="have shape"):
        TextWeights(("a",), np.ones(2), "x", (0,), (False,))
    with pytest.raises(ValueError, match="expected finite"):
        TextWeights(("a",), np.array([np.nan]), "x", (0,), (False,))


def test_averages_keep_rows_that_sum_to_one():
    weights = np.random.default_rng(1).dirichlet(np.ones(7), size=(2, 3, 5))  # layer, head, target, source
    heads = average_heads(weights)
    assert heads.shape == (2, 5, 7)
    np.testing.assert_allclose(heads[1, 4], (weights[1, 0, 4] + weights[1, 1, 4] + weights[1, 2, 4]) / 3)
    np.testing.assert_allclose(heads.sum(-1), 1)
    with pytest.raises(ValueError, match="expected at least 1"):
        average_heads(np.zeros((2, 0, 5, 7)))
