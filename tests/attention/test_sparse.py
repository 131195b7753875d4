"""Sparsemax and 1.5-entmax against their definitions: the threshold found by bisection, in NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention.align import Entmax15, Sparsemax, entmax15, softmax, sparsemax

Sparse = Callable[..., Tensor]
POWER: dict[Sparse, int] = {sparsemax: 1, entmax15: 2}


def bisected(scores: list[float], power: int) -> np.ndarray:
    """max(e / power - tau, 0)^power, with tau such that the sum is 1."""
    e = np.array(scores) / power
    low, high = e.max() - 1, e.max()
    for _ in range(200):
        tau = (low + high) / 2
        low, high = (tau, high) if (np.maximum(e - tau, 0) ** power).sum() > 1 else (low, tau)
    return np.maximum(e - (low + high) / 2, 0) ** power


@pytest.mark.parametrize("function", POWER)
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 50.0])
def test_the_definition(function: Sparse, spread: float):
    scores = spread * torch.randn(5, 3, 11, dtype=torch.float64)
    found = function(scores)
    for row, expected in zip(found.flatten(0, 1), scores.flatten(0, 1), strict=True):
        np.testing.assert_allclose(row.numpy(), bisected(expected.tolist(), POWER[function]), atol=1e-12)


def test_sparsemax_by_hand():
    """tau = (0.5 + 0.2 - 1) / 2: the third score lies below it."""
    assert sparsemax(torch.tensor([0.5, 0.2, -1.0])).tolist() == pytest.approx([0.65, 0.35, 0.0])
    assert sparsemax(torch.tensor([3.0, 1.0])).tolist() == [1.0, 0.0]


def test_entmax_by_hand():
    """Scores 1 and 0: with halves 1/2 and 0, tau = 1/4 - sqrt(7)/4."""
    root = 7**0.5
    expected = [((1 + root) / 4) ** 2, ((root - 1) / 4) ** 2]
    assert entmax15(torch.tensor([1.0, 0.0]).double()).tolist() == pytest.approx(expected)
    assert sum(expected) == pytest.approx(1)


@pytest.mark.parametrize("function", POWER)
def test_between_softmax_and_the_best_key(function: Sparse):
    scores = 2 * torch.randn(13, 17, dtype=torch.float64)
    zeros = {name: int((given(scores) == 0).sum()) for name, given in (("soft", softmax), ("here", function))}
    assert zeros["soft"] == 0 < zeros["here"]


@pytest.mark.parametrize("function", POWER)
def test_gradients(function: Sparse):
    scores = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(3, 7) < 0.7
    mask[0] = False
    assert torch.autograd.gradcheck(lambda each: function(each, mask), scores)
    assert torch.autograd.gradgradcheck(lambda each: function(each, mask), scores)


@pytest.mark.parametrize("function", POWER)
def test_scores_far_apart_and_equal(function: Sparse):
    big = torch.finfo(torch.float32).max
    assert function(torch.tensor([big, -big, 0.0])).tolist() == [1.0, 0.0, 0.0]
    assert function(torch.full((5,), 7.0)).tolist() == pytest.approx([0.2] * 5)
    assert function(torch.tensor([-big, -big])).tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(("module", "function"), [(Sparsemax(), sparsemax), (Entmax15(), entmax15)])
def test_modules(module, function: Sparse):
    scores = torch.randn(2, 3, 5)
    torch.testing.assert_close(module(scores).weights, function(scores), rtol=0, atol=0)
