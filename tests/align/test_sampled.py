import pytest
import torch

from regard.align import StraightThrough, softmax
from regard.masks import as_mask

SCORES = torch.tensor([[[0.3, -1.0, 1.2, 0.1]]], dtype=torch.float64)


def test_draws_are_those_of_the_softmax():
    """20,000 draws; a share is within 4 standard deviations of its probability."""
    align, mask = StraightThrough().train(), torch.tensor([[[True, True, True, False]]])
    weights = align(SCORES.expand(20_000, 1, 4), as_mask(mask)).weights
    assert weights.unique().tolist() == pytest.approx([0.0, 1.0])
    shares, expected = weights.mean(0)[0], softmax(SCORES, mask)[0, 0]
    assert ((shares - expected).abs() <= 4 * (expected * (1 - expected) / 20_000).sqrt() + 1e-12).all()


def test_the_gradient_is_that_of_the_noisy_softmax():
    scores = SCORES.clone().requires_grad_()
    align = StraightThrough(0.7).train()
    torch.manual_seed(3)
    hard = align(scores).weights
    pull = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    (found,) = torch.autograd.grad((hard * pull).sum(), scores)
    torch.manual_seed(3)
    noisy = scores - torch.empty_like(scores).exponential_().log()
    (expected,) = torch.autograd.grad(((noisy / 0.7).softmax(-1) * pull).sum(), scores)
    torch.testing.assert_close(found, expected)


def test_the_best_key_at_inference():
    assert StraightThrough().eval()(SCORES).weights.tolist() == [[[0, 0, 1, 0]]]


def test_a_temperature_that_makes_no_sense():
    with pytest.raises(ValueError, match=r"temperature is 0\.0; it must be above 0"):
        StraightThrough(0.0)
