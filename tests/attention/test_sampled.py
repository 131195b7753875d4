import pytest
import torch

from regard.attention.align import Hard, StraightThrough, softmax
from regard.attention.align.soft import Aligned, Draw
from regard.attention.masks import as_mask

SCORES = torch.tensor([[[0.3, -1.0, 1.2, 0.1]]], dtype=torch.float64)


def draw_of(aligned: Aligned) -> Draw:
    assert aligned.draw is not None
    return aligned.draw


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


def test_hard_draws_are_those_of_the_softmax_and_know_their_probability():
    align, mask = Hard().train(), torch.tensor([[[True, True, True, False]]])
    aligned = align(SCORES.expand(20_000, 1, 4), as_mask(mask))
    assert aligned.weights.unique().tolist() == [0.0, 1.0]
    shares, expected = aligned.weights.mean(0)[0], softmax(SCORES, mask)[0, 0]
    assert ((shares - expected).abs() <= 4 * (expected * (1 - expected) / 20_000).sqrt()).all()
    drawn = aligned.weights.argmax(-1)[:, 0]
    torch.testing.assert_close(draw_of(aligned).log_probability[:, 0], expected[drawn].log())
    torch.testing.assert_close(draw_of(aligned).entropy[0, 0], -(expected[:3] * expected[:3].log()).sum())


def test_no_gradient_passes_through_a_hard_draw():
    """Only its probability has one: onehot - softmax."""
    scores = SCORES.clone().requires_grad_()
    aligned = Hard().train()(scores)
    assert not torch.autograd.grad(aligned.weights.square().sum(), scores, retain_graph=True)[0].any()
    (gradient,) = torch.autograd.grad(draw_of(aligned).log_probability.sum(), scores)
    torch.testing.assert_close(gradient, aligned.weights - SCORES.softmax(-1))


def test_a_query_that_may_read_nothing_draws_nothing():
    scores = SCORES.expand(1, 2, 4).clone().requires_grad_()
    mask = torch.tensor([[[False] * 4, [False, False, True, True]]])
    aligned = Hard().train()(scores, as_mask(mask))
    assert aligned.weights.sum(-1).tolist() == [[0.0, 1.0]]
    assert draw_of(aligned).log_probability[0, 0] == draw_of(aligned).entropy[0, 0] == 0
    total = draw_of(aligned).log_probability.sum() + draw_of(aligned).entropy.sum()
    assert torch.autograd.grad(total, scores)[0].isfinite().all()


def test_a_share_of_the_sequences_reads_softly_from_first_to_last():
    align = Hard(0.5).train()
    first = align(SCORES.expand(400, 1, 4))
    soft = (first.weights - SCORES.softmax(-1)).abs().amax((1, 2)) < 1e-12
    assert 140 < soft.sum() < 260  # 6 standard deviations
    assert draw_of(first).log_probability[soft].eq(0).all()
    assert draw_of(first).log_probability[~soft].lt(0).all()
    second = align(SCORES.expand(400, 1, 4), state=first.state)
    again = (second.weights - SCORES.softmax(-1)).abs().amax((1, 2)) < 1e-12
    assert torch.equal(again, soft)


def test_hard_reads_the_best_key_at_inference():
    aligned = Hard().eval()(SCORES)
    assert aligned.weights.tolist() == [[[0, 0, 1, 0]]]
    assert aligned.draw is None


def test_a_share_that_makes_no_sense():
    with pytest.raises(ValueError, match=r"soft_share is 1\.5; it must be between 0 and 1"):
        Hard(1.5)
