import numpy as np

from regard.maps import shares


def test_by_hand():
    found = shares(np.array([[1.0, -3.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]))
    np.testing.assert_array_equal(found, [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_rows_that_sum_to_one_stay():
    weights = np.random.default_rng(1).dirichlet(np.ones(7), (2, 5))
    np.testing.assert_allclose(shares(weights), weights, rtol=1e-14)


def test_no_row_and_no_column():
    assert shares(np.zeros((0, 3))).shape == (0, 3)
    assert shares(np.zeros((2, 0))).shape == (2, 0)
