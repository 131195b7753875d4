import math

import pytest
import torch

from regard.attention.align.losses import coverage, diagonal, doubly_stochastic, entropy, guidance

WEIGHTS = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.0, 0.75]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]).double()


def test_by_hand():
    """Sums over the steps are [0.75, 0.5, 0.75] and [2, 0, 0]."""
    assert doubly_stochastic(WEIGHTS).tolist() == [0.0625 + 0.25 + 0.0625, 1 + 1 + 1]
    assert doubly_stochastic(WEIGHTS, torch.tensor([[True] * 3, [True, False, False]])).tolist() == [0.375, 1.0]
    assert coverage(WEIGHTS).tolist() == [0.25, 1.0]
    bits = torch.tensor([2.0]).log().item()
    quarter = -(0.25 * torch.tensor(0.25).log() + 0.75 * torch.tensor(0.75).log()).item()
    assert entropy(WEIGHTS).tolist() == pytest.approx([bits + quarter, 0.0])


@pytest.mark.parametrize("loss", [doubly_stochastic, entropy, coverage])
def test_gradients(loss):
    weights = torch.randn(2, 3, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(loss, weights)


def test_guided_by_hand():
    """The first query should read two keys alike, of the second nothing is known."""
    links = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]).double()
    assert guidance(WEIGHTS, links).tolist() == pytest.approx([torch.tensor([2.0]).log().item(), 0.0])
    assert guidance(WEIGHTS, links.flip(-1)).isfinite().all()
    weights = torch.randn(2, 2, 3, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(lambda each: guidance(each, links), weights)


def test_diagonal_by_hand():
    """Two queries at 0 and 1/2, three keys at 0, 1/3 and 2/3; in the second sequence one query and two keys."""
    far = [1 - math.exp(-((key - query) ** 2) / (2 * 0.3**2)) for query in (0, 1 / 2) for key in (0, 1 / 3, 2 / 3)]
    first = 0.5 * far[0] + 0.5 * far[1] + 0.25 * far[3] + 0.75 * far[5]
    weights = WEIGHTS * torch.tensor([[[1.0], [1.0]], [[1.0], [0.0]]])
    found = diagonal(weights, torch.tensor([2, 1]), torch.tensor([3, 2]), 0.3)
    assert found.tolist() == pytest.approx([first, 0.0])
    counts = torch.tensor([2, 1]), torch.tensor([3, 2])
    weights = torch.randn(2, 2, 3, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(lambda each: diagonal(each, *counts), weights)
