import numpy as np
import pytest

from regard.maps import patch_weights, rollout


def test_by_hand():
    first = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    second = np.array([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
    one = np.array([[0.75, 0.25], [0.25, 0.75]])
    two = np.array([[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(rollout(np.stack([first, second])), two @ one)


def test_layers_may_have_different_numbers_of_heads():
    one = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    two = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    np.testing.assert_allclose(rollout([one, two]), rollout(np.stack([one, two.repeat(2, 0)])))


def test_rows_still_sum_to_one():
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
    with pytest.raises(ValueError, match="5 positions hold no 2 x 3 patches"):
        patch_weights(np.zeros(5), 2, 3)
