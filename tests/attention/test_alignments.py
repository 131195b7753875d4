"""Alignments and their losses against their papers: local, monotonic, drawn and sparse ones."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention.align import (
    Align,
    Hard,
    LocalMonotonic,
    LocalPredictive,
    Monotonic,
    StraightThrough,
    entmax15,
    softmax,
    sparsemax,
)
from regard.attention.align.hard import expect_weights
from regard.attention.align.losses import coverage, diagonal, doubly_stochastic, entropy, guidance
from regard.attention.align.soft import Aligned, Draw
from regard.attention.masks import as_mask, padding

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


def test_gradients_of_monotonic():
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


SCORES = torch.tensor([[[0.3, -1.0, 1.2, 0.1]]], dtype=torch.float64)


def draw_of(aligned: Aligned) -> Draw:
    assert aligned.draw is not None
    return aligned.draw


@pytest.mark.parametrize("align", [StraightThrough(), Hard()])
def test_draws_are_those_of_the_softmax_and_know_their_probability(align: Align):
    """20,000 draws; a share is within 4 standard deviations of its probability."""
    mask = torch.tensor([[[True, True, True, False]]])
    aligned = align.train()(SCORES.expand(20_000, 1, 4), as_mask(mask))
    assert aligned.weights.unique().tolist() == pytest.approx([0.0, 1.0])
    shares, expected = aligned.weights.mean(0)[0], softmax(SCORES, mask)[0, 0]
    assert ((shares - expected).abs() <= 4 * (expected * (1 - expected) / 20_000).sqrt() + 1e-12).all()
    if isinstance(align, Hard):
        drawn = aligned.weights.argmax(-1)[:, 0]
        torch.testing.assert_close(draw_of(aligned).log_probability[:, 0], expected[drawn].log())
        torch.testing.assert_close(draw_of(aligned).entropy[0, 0], -(expected[:3] * expected[:3].log()).sum())


@pytest.mark.parametrize("align", [StraightThrough(), Hard()])
def test_the_best_key_at_inference(align: Align):
    aligned = align.eval()(SCORES)
    assert aligned.weights.tolist() == [[[0, 0, 1, 0]]]
    assert aligned.draw is None


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match=r"temperature is 0\.0; it must be above 0"):
        StraightThrough(0.0)
    with pytest.raises(ValueError, match=r"soft_share is 1\.5; it must be between 0 and 1"):
        Hard(1.5)


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


@pytest.mark.parametrize("function", POWER)
def test_gradients_of_sparse(function: Sparse):
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


WEIGHTS = torch.tensor([[[0.5, 0.5, 0.0], [0.25, 0.0, 0.75]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]).double()


def test_losses_by_hand():
    """Sums over the steps are [0.75, 0.5, 0.75] and [2, 0, 0]."""
    assert doubly_stochastic(WEIGHTS).tolist() == [0.0625 + 0.25 + 0.0625, 1 + 1 + 1]
    assert doubly_stochastic(WEIGHTS, torch.tensor([[True] * 3, [True, False, False]])).tolist() == [0.375, 1.0]
    assert coverage(WEIGHTS).tolist() == [0.25, 1.0]
    bits = torch.tensor([2.0]).log().item()
    quarter = -(0.25 * torch.tensor(0.25).log() + 0.75 * torch.tensor(0.75).log()).item()
    assert entropy(WEIGHTS).tolist() == pytest.approx([bits + quarter, 0.0])


@pytest.mark.parametrize("loss", [doubly_stochastic, entropy, coverage])
def test_gradients_of_losses(loss):
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
