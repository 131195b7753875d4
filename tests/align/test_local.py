"""Local alignments against Luong's equations 9 and 10, with loops."""

import math

import pytest
import torch

from regard.align import LocalMonotonic, LocalPredictive
from regard.masks import padding

LENGTHS = [7, 4, 1, 0]


def softmax_of(row: list[float]) -> list[float]:
    raised = [math.exp(each) for each in row]
    return [each / sum(raised) for each in raised]


def test_local_m_reads_around_its_step_and_stays_at_the_end():
    scores = torch.randn(4, 6, 7, dtype=torch.float64)
    found = LocalMonotonic(2)(scores, padding(torch.tensor(LENGTHS), 7))
    expected = torch.zeros_like(scores)
    for row, length in enumerate(LENGTHS):
        for step in range(6):
            centre = min(step, length - 1)
            near = [key for key in range(length) if abs(key - centre) <= 2]
            weights = softmax_of([scores[row, step, key].item() for key in near])
            for key, weight in zip(near, weights, strict=True):
                expected[row, step, key] = weight
    torch.testing.assert_close(found.weights, expected)
    assert found.state.tolist() == [6] * 4


def test_local_m_goes_on_where_it_was():
    scores, mask = torch.randn(4, 3, 6, 7), padding(torch.tensor(LENGTHS), 7).over_heads()
    align = LocalMonotonic(1)
    state, steps = None, []
    for part in scores.split([1, 3, 2], 2):
        aligned = align(part, mask, None, state)
        state = aligned.state
        steps.append(aligned.weights)
    torch.testing.assert_close(torch.cat(steps, 2), align(scores, mask).weights)


def test_local_p():
    align = LocalPredictive(5, 3, 2).double()
    scores, query = torch.randn(4, 6, 7, dtype=torch.float64), torch.randn(4, 6, 5, dtype=torch.float64)
    found = align(scores, padding(torch.tensor(LENGTHS), 7), query).weights
    expected = torch.zeros_like(scores)
    for row, length in enumerate(LENGTHS):
        for step in range(6):
            inner = (align.hidden.weight @ query[row, step]).tanh()
            place = length * torch.sigmoid(align.place.weight[0] @ inner).item()
            near = [key for key in range(length) if abs(key - place) <= 2]
            weights = softmax_of([scores[row, step, key].item() for key in near])
            for key, weight in zip(near, weights, strict=True):
                expected[row, step, key] = weight * math.exp(-((key - place) ** 2) / (2 * (2 / 2) ** 2))
    torch.testing.assert_close(found, expected)


def test_local_p_learns_where_to_look():
    align = LocalPredictive(5, 3, 2).double()
    query = torch.randn(1, 2, 5, dtype=torch.float64)
    align(torch.zeros(1, 2, 7, dtype=torch.float64), None, query).weights[0, 0, 3].backward()
    assert align.place.weight.grad is not None
    assert align.place.weight.grad.any()


def test_windows_that_make_no_sense():
    with pytest.raises(ValueError, match="window is -1; it must be at least 0"):
        LocalMonotonic(-1)
    with pytest.raises(ValueError, match="window is 0; it must be at least 1"):
        LocalPredictive(5, 3, 0)
    with pytest.raises(ValueError, match="by the query; give it"):
        LocalPredictive(5, 3, 1)(torch.zeros(1, 2, 3))
