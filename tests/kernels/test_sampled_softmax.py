"""Sampled softmax: its samples, their correction, and estimates in training only."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels.cross_entropy import estimate_cross_entropy, log_uniform, sample_ids
from regard.nn.output import SampledOutput
from regard.text.special import IGNORED

VOCABULARY, WIDTH = 13, 5
TARGETS = torch.tensor([0, 3, 12])


def given() -> tuple[Tensor, Tensor, Tensor]:
    features, table = (torch.randn(rows, WIDTH, dtype=torch.float64) for rows in (3, VOCABULARY))
    return features, table, torch.randn(VOCABULARY, dtype=torch.float64)


def test_the_probabilities_are_those_of_what_is_drawn():
    probabilities = log_uniform(torch.arange(VOCABULARY), VOCABULARY)
    assert float(probabilities.sum()) == pytest.approx(1, abs=1e-12)
    assert float(probabilities[3]) == pytest.approx(math.log(5 / 4) / math.log(14))
    count = 200_000
    counts = torch.bincount(sample_ids(count, VOCABULARY), minlength=VOCABULARY)
    deviations = (counts - count * probabilities) / (count * probabilities * (1 - probabilities)).sqrt()
    assert len(counts) == VOCABULARY
    assert deviations.abs().max() < 4


def test_the_expectation_of_the_exponential_is_exact():
    """Over all words that can be drawn, one and two at a time."""
    features, weight, bias = given()
    exact = functional.cross_entropy(features @ weight.t() + bias, TARGETS, reduction="none")
    likely = log_uniform(torch.arange(VOCABULARY), VOCABULARY)
    for drawn in (torch.arange(VOCABULARY)[:, None], torch.cartesian_prod(*[torch.arange(VOCABULARY)] * 2)):
        found = torch.stack([estimate_cross_entropy(features, weight, bias, TARGETS, each).exp() for each in drawn])
        torch.testing.assert_close(likely[drawn].prod(1) @ found, exact.exp(), rtol=1e-12, atol=0)


def test_many_samples_give_the_exact_loss_and_gradient():
    features, weight, bias = (tensor.requires_grad_() for tensor in given())
    exact = functional.cross_entropy(features @ weight.t() + bias, TARGETS, reduction="sum")
    drawn = sample_ids(400_000, VOCABULARY)
    estimated = estimate_cross_entropy(features, weight, bias, TARGETS, drawn).sum()
    torch.testing.assert_close(estimated, exact, rtol=0.01, atol=0)
    wanted, found = (torch.autograd.grad(loss, (features, weight, bias)) for loss in (exact, estimated))
    for one, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(other, one, rtol=0.02, atol=0.02)


def test_evaluation_is_exact_and_padding_counts_for_nothing():
    output = SampledOutput(WIDTH, VOCABULARY, samples=7)
    features, targets = torch.randn(2, 3, WIDTH), torch.tensor([[5, 12, IGNORED], [1, IGNORED, IGNORED]])
    _, each = output.loss(features, targets)
    assert (each != 0).tolist() == (targets != IGNORED).tolist()
    total, _ = output.eval().loss(features, targets)
    exact = functional.cross_entropy(
        output(features).flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    torch.testing.assert_close(total, exact)


def test_smoothing_is_refused():
    with pytest.raises(ValueError, match=r"smoothing is 0\.1"):
        SampledOutput(WIDTH, VOCABULARY, samples=7).loss(torch.randn(1, 1, WIDTH), torch.tensor([[1]]), 0.1)
