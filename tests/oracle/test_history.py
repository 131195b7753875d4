"""Scores that see earlier weights, against their equations with loops."""

import numpy as np
import pytest
import torch

from regard.attention.history import Coverage, History, LocationAware, SequentialAttend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive
from tests.oracle import reference
from tests.oracle.reference import Array, Parameters


def covered(p: Parameters, past: list[Array]) -> Array:
    """See 2017, equation 10: w_c times the sum of the weights so far."""
    return np.stack(past).sum(0)[:, None] * p["history.weight"]


def convolved(p: Parameters, past: list[Array]) -> Array:
    """Chorowski 2015, equation 8: U (F * a_{t-1}), a filter of 3 whose middle lies on the key."""
    padded = np.concatenate([[0.0], past[-1], [0.0]])
    windows = np.array([padded[key : key + 3] for key in range(len(past[-1]))])
    return windows @ p["history.filters.weight"][:, 0].T @ p["history.linear.weight"].T


@pytest.mark.parametrize(
    ("history", "addition"), [(Coverage(7), covered), (LocationAware(7, filters=2, kernel=3), convolved)]
)
def test_additive_scores_with_a_history(history: History, addition):
    attend = SequentialAttend(Additive(5, 3, 7), history).double()
    query, keys = torch.randn(2, 4, 5, dtype=torch.float64), torch.randn(2, 6, 3, dtype=torch.float64)
    with record(attend) as maps:
        attend(query, Memory(keys, keys, padding(torch.tensor([6, 4]), 6)))
    p = reference.parameters(attend)
    for row, length in enumerate((6, 4)):
        past = [np.zeros(length)]
        for step in range(4):
            extra = addition(p, past)
            scores = [
                p["score.energy"]
                @ np.tanh(
                    query[row, step].numpy() @ p["score.query_weight"]
                    + keys[row, key].numpy() @ p["score.key_weight"]
                    + extra[key]
                )
                for key in range(length)
            ]
            past.append(reference.softmax(scores))
            np.testing.assert_allclose(maps[""][row, step, :length].numpy(), past[-1], atol=1e-12)


def test_a_filter_without_a_middle():
    with pytest.raises(ValueError, match="kernel is 4; it must be odd"):
        LocationAware(7, kernel=4)
