"""The expected alignment against a simulation of the process it is the expectation of, and the hard one by hand."""

import pytest
import torch

from regard.attention.align import Monotonic
from regard.attention.align.hard import expect_weights
from regard.attention.masks import padding


def recursion(energy: torch.Tensor, last: torch.Tensor) -> list[float]:
    """Raffel 2017, equations 9 and 10: q_j = (1 - p_{j-1}) q_{j-1} + a'_j, a_j = p_j q_j."""
    p, q, found = energy.sigmoid().tolist(), 0.0, []
    for j, before in enumerate(last.tolist()):
        q = (1 - p[j - 1]) * q + before if j else before
        found.append(p[j] * q)
    return found


@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
def test_the_recursion_of_the_paper(spread: float):
    energy = spread * torch.randn(5, 7, dtype=torch.float64)
    last = torch.rand(5, 7, dtype=torch.float64).softmax(-1)
    found = expect_weights(energy, torch.ones(5, 7, dtype=torch.bool), last)
    for row in range(5):
        assert found[row].tolist() == pytest.approx(recursion(energy[row], last[row]), abs=1e-12)


def test_a_forbidden_key_is_passed_over():
    energy, last = torch.randn(1, 3, dtype=torch.float64), torch.tensor([[1.0, 0.0, 0.0]]).double()
    found = expect_weights(energy, torch.tensor([[True, False, True]]), last)[0]
    p = energy[0].sigmoid()
    torch.testing.assert_close(found, torch.stack([p[0], torch.zeros_like(p[0]), (1 - p[0]) * p[2]]))


def test_training_steps_from_one_query_to_the_next():
    align = Monotonic(0.3, noise=0.0).double().train()
    scores = torch.randn(2, 3, 5, dtype=torch.float64)
    aligned = align(scores, padding(torch.tensor([5, 4]), 5))
    last = torch.eye(5, dtype=torch.float64)[0]
    for step in range(3):
        weights = recursion(scores[0, step] + 0.3, last)
        assert aligned.weights[0, step].tolist() == pytest.approx(weights)
        last = torch.tensor(weights, dtype=torch.float64)
    torch.testing.assert_close(aligned.state, aligned.weights[:, -1])
    assert not aligned.weights[1, :, 4].any()


def test_gradients():
    """To the scores, to the learned offset and to the weights of the query before."""
    align = Monotonic(noise=0.0).double().train()
    scores = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    before = torch.rand(2, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    mask = padding(torch.tensor([5, 2]), 5)

    def weights(scores: torch.Tensor, offset: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(align, {"offset": offset}, (scores, mask, None, before)).weights

    assert torch.autograd.gradcheck(weights, (scores, align.offset, before))


def test_inference_takes_the_first_that_is_likely_and_never_goes_back():
    scores = torch.tensor([[[-1.0, 2, 3, -1], [9, -1, -1, -1], [9, -1, 5, 5], [9, 9, -1, 5]]])
    found = Monotonic(0.0).eval()(scores)
    assert found.weights[0].tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert found.state.tolist() == [[0, 0, 0, 1]]


def test_inference_reads_the_same_key_again():
    scores = torch.tensor([[[-1.0, 2, 3], [9, 2, 3], [9, 2, -3], [9, -1, 5]]])
    aligned = Monotonic(0.0).eval()(scores)
    assert aligned.weights[0].tolist() == [[0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    later = Monotonic(0.0).eval()(scores[:, 1:2], state=torch.tensor([[0.0, 1, 0]]))
    assert later.weights[0].tolist() == [[0, 1, 0]]
