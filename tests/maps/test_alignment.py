import numpy as np
import pytest

from regard.maps import Alignment, average_heads, average_layers


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
        ([[0, 0, 0], [0, float("nan"), 0]], "weight nan at target 1, source 1"),
        ([[0, 0, float("inf")], [0, 0, 0]], "weight inf at target 0, source 2"),
        ([[0, 0, 0], [-0.5, 0, 0]], "weight -0.5 at target 1, source 0"),
    ],
)
def test_refuses_in_one_line(weights, message):
    with pytest.raises(ValueError, match=message) as caught:
        Alignment(np.array(weights), ("a", "b", "c"), ("x", "y"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("labels", ["abc", ("a", 1, "c")])
def test_refuses_labels_that_are_not_strings(labels):
    with pytest.raises(TypeError, match="source"):
        Alignment(np.zeros((1, 3)), labels, ("x",))


def test_averages_keep_rows_that_sum_to_one():
    weights = np.random.default_rng(1).dirichlet(np.ones(7), size=(2, 3, 5))  # layer, head, target, source
    heads, layers = average_heads(weights), average_layers(weights)
    assert heads.shape == (2, 5, 7)
    assert layers.shape == (3, 5, 7)
    np.testing.assert_allclose(heads[1, 4], (weights[1, 0, 4] + weights[1, 1, 4] + weights[1, 2, 4]) / 3)
    np.testing.assert_allclose(layers[2, 4], (weights[0, 2, 4] + weights[1, 2, 4]) / 2)
    np.testing.assert_allclose(average_heads(layers).sum(-1), 1)


@pytest.mark.parametrize("average", [average_heads, average_layers])
def test_averages_need_something_to_average(average):
    with pytest.raises(ValueError, match="expected at least 1"):
        average(np.zeros((0, 0, 5, 7)))
