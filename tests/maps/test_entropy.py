import math

import numpy as np
import pytest

from regard.maps.reductions import mean_entropies


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
def test_golden(rows: list[list[float]], bits: float):
    assert mean_entropies(np.array(rows)) == pytest.approx(bits, abs=1e-15)


def test_of_many_maps_at_once():
    weights = np.random.default_rng(3).dirichlet(np.full(11, 0.3), size=(2, 3, 7))
    weights[1, 2, 4] = 0.0
    expected = [[by_hand(each.tolist()) for each in layer] for layer in weights]
    np.testing.assert_allclose(mean_entropies(weights), expected, rtol=1e-12)


def test_where_nothing_is_read_there_is_none():
    found = mean_entropies(np.stack([np.zeros((3, 5)), np.full((3, 5), 0.2)]))
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(math.log2(5))
    assert np.isnan(mean_entropies(np.zeros((2, 0, 5)))).all()
