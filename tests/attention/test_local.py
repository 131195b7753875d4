"""Local alignments against Luong's equations 9 and 10, with loops."""

import math

import pytest
import torch

from regard.attention.align import LocalMonotonic, LocalPredictive
from regard.attention.masks import padding

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
    scores, mask = torch.randn(4, 3, 6, 7), padding(torch.tensor(LENGTHS), 7).with_head_axis()
    align = LocalMonotonic(1)
    state, steps = None, []
    for part in scores.split([1, 3, 2], 2):
        aligned = align(part, mask, None, state)
        state = aligned.state
        steps.append(aligned.weights)
    torch.testing.assert_close(torch.cat(steps, 2), align(scores, mask).weights)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_local_p(window: int):
    """Equations 9 and 10, sigma = W / 2, with loops."""
    align = LocalPredictive(5, 3, window).double()
    scores, query = torch.randn(4, 6, 7, dtype=torch.float64), torch.randn(4, 6, 5, dtype=torch.float64)
    found = align(scores, padding(torch.tensor(LENGTHS), 7), query).weights
    expected = torch.zeros_like(scores)
    for row, length in enumerate(LENGTHS):
        for step in range(6):
            inner = (align.hidden.weight @ query[row, step]).tanh()
            place = length * torch.sigmoid(align.place.weight[0] @ inner).item()
            near = [key for key in range(length) if abs(key - place) <= window]
            weights = softmax_of([scores[row, step, key].item() for key in near])
            for key, weight in zip(near, weights, strict=True):
                expected[row, step, key] = weight * math.exp(-((key - place) ** 2) / (2 * (window / 2) ** 2))
    torch.testing.assert_close(found, expected)


def test_local_p_by_hand():
    """The query says three quarters: of 6 keys p = 4.5, of 2 keys p = 1.5. With W = 3 the first reads the keys 2 to 5,
    a quarter each, the second both, a half each; sigma = 1.5 then leaves exp(-1 / 18), exp(-1 / 2) and exp(-25 / 18) of
    a weight at the distances 0.5, 1.5 and 2.5."""
    align = LocalPredictive(1, 1, 3).double()
    torch.nn.init.ones_(align.hidden.weight)
    torch.nn.init.constant_(align.place.weight, math.log(3) / math.tanh(1))
    zeros, ones = torch.zeros(2, 1, 6, dtype=torch.float64), torch.ones(2, 1, 1, dtype=torch.float64)
    near, far, farther = 0.9459594689067654, 0.6065306597126334, 0.24935220877729622
    mask = padding(torch.tensor([6, 2]), 6)
    centers = align.predict_centers(ones, torch.tensor([[6], [2]]))
    assert centers.flatten().tolist() == pytest.approx([4.5, 1.5], rel=1e-12)
    first, second = align(zeros, mask, ones).weights[:, 0].tolist()
    assert first == pytest.approx([0, 0, farther / 4, far / 4, near / 4, near / 4], rel=1e-9)
    assert second == pytest.approx([far / 2, near / 2, 0, 0, 0, 0], rel=1e-9)


def test_local_p_learns_where_to_look():
    align = LocalPredictive(5, 3, 2).double()
    query = torch.randn(1, 2, 5, dtype=torch.float64)
    align(torch.zeros(1, 2, 7, dtype=torch.float64), None, query).weights[0, 0, 3].backward()
    assert align.place.weight.grad is not None
    assert align.place.weight.grad.any()


@pytest.mark.parametrize("window", [0, 2])
def test_gradients_of_local_m(window: int):
    scores, mask = torch.randn(4, 6, 7, dtype=torch.float64, requires_grad=True), padding(torch.tensor(LENGTHS), 7)
    assert torch.autograd.gradcheck(lambda each: LocalMonotonic(window)(each, mask).weights, scores)


@pytest.mark.parametrize("window", [1, 3])
def test_gradients_of_local_p(window: int):
    """To the scores, to the queries and to both weights."""
    align, mask = LocalPredictive(3, 2, window).double(), padding(torch.tensor(LENGTHS), 7)
    scores = torch.randn(4, 3, 7, dtype=torch.float64, requires_grad=True)
    query = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)
    names = ["hidden.weight", "place.weight"]

    def weights(scores: torch.Tensor, query: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        aligned = torch.func.functional_call(align, dict(zip(names, given, strict=True)), (scores, mask, query))
        return aligned.weights

    assert torch.autograd.gradcheck(weights, (scores, query, *(align.get_parameter(name) for name in names)))


def test_windows_that_make_no_sense():
    with pytest.raises(ValueError, match="window is -1; it must be at least 0"):
        LocalMonotonic(-1)
    with pytest.raises(ValueError, match="window is 0; it must be at least 1"):
        LocalPredictive(5, 3, 0)
    with pytest.raises(ValueError, match="local-p needs the queries"):
        LocalPredictive(5, 3, 1)(torch.zeros(1, 2, 3))
