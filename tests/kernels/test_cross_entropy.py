"""The chunked cross-entropy against the plain one; sampled softmax: samples, their correction, estimates."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from regard.kernels import cross_entropy as kernel
from regard.kernels.cross_entropy import cross_entropy, estimate_cross_entropy, log_uniform, sample_ids
from regard.nn.output import SampledOutput
from regard.text.kinds import IGNORED

WIDTH, VOCABULARY = 5, 13


def cross_entropy_reference(features, weight, bias, targets, smoothing=0.0):
    """It stores all logits."""
    logits = functional.linear(features, weight, bias)
    return functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


def inputs(rows: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, weight and bias with gradients, and targets; logits are far from zero."""
    shapes = (rows, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,)
    features, weight, bias = ((7 * torch.randn(shape, dtype=dtype)).requires_grad_() for shape in shapes)
    return features, weight, bias, torch.randint(VOCABULARY, (rows,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 3, 7, 512])
@pytest.mark.parametrize("rows", [0, 1, 7, 11])
def test_equals_the_plain_form(rows: int, chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "CHUNK", chunk)
    given = inputs(rows)
    (found, each), wanted = cross_entropy(*given, smoothing), cross_entropy_reference(*given, smoothing)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    alone = [
        cross_entropy_reference(given[0][row : row + 1], *given[1:3], given[3][row : row + 1], smoothing)
        for row in range(rows)
    ]
    torch.testing.assert_close(each, torch.stack([*alone, wanted])[:-1], rtol=1e-12, atol=1e-12)
    assert not each.requires_grad
    upstream = torch.tensor(-2.5, dtype=torch.float64)
    gradients = [torch.autograd.grad(total, given[:3], upstream) for total in (found, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradcheck(smoothing: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "CHUNK", 2)
    *floats, targets = inputs(3)
    small = [(each / 7).detach().requires_grad_() for each in floats]
    assert torch.autograd.gradcheck(lambda f, w, b: cross_entropy(f, w, b, targets, smoothing)[0], small)


def test_a_second_gradient_is_refused():
    """It would silently lack a part: the first is made in the forward pass."""
    given = inputs(3)
    (gradient,) = torch.autograd.grad(cross_entropy(*given)[0].square(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_without_gradients():
    given = inputs(7)
    for each in given:
        each.requires_grad_(False)
    assert not cross_entropy(*given)[0].requires_grad
    torch.testing.assert_close(cross_entropy(*given)[0], cross_entropy_reference(*given), rtol=1e-12, atol=1e-12)


def test_bf16_training_sums_in_full_precision(monkeypatch: pytest.MonkeyPatch):
    """Under autocast the products are in bf16; a sum of many rows would be lost in it."""
    monkeypatch.setattr(kernel, "CHUNK", 64)
    features, weight, bias, targets = inputs(503, torch.float32)
    features, weight = features / 7, weight / 7  # logits near 1: those of a product in bf16 are off by hundredths
    half = features.detach().bfloat16().requires_grad_()
    weight, bias = (each.detach().bfloat16().float().requires_grad_() for each in (weight, bias))
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = cross_entropy(half, weight, bias, targets, 0.1)
    wanted = cross_entropy_reference(half.float(), weight, bias, targets, 0.1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)
    leaves = [half, weight, bias]
    gradients = [torch.autograd.grad(total, leaves) for total in (found, wanted)]
    for got, expected in zip(*gradients, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2 * expected.abs().max().item())


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
