"""The chunked cross-entropy against the plain one: value and every gradient."""

import pytest
import torch
from torch import Tensor

from regard.kernels import cross_entropy as kernel
from regard.kernels.cross_entropy import cross_entropy, cross_entropy_reference

WIDTH, VOCABULARY = 5, 13


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


def test_by_hand():
    """Logits ln 1, ln 2, ln 5 of the target with 1/8: ln 8, smoothed with the mean of ln 8, ln 4 and ln 8/5."""
    logits = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    given = torch.zeros(1, 1).double(), torch.zeros(3, 1).double(), logits, torch.tensor([0])
    assert cross_entropy(*given)[0].item() == pytest.approx(2.0794415416798357)
    mean = torch.tensor([8.0, 4.0, 1.6]).double().log().mean().item()
    assert cross_entropy(*given, 0.3)[0].item() == pytest.approx(0.7 * 2.0794415416798357 + 0.3 * mean)


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


def test_inputs_stay_as_they_are_and_large_logits_do_not_overflow():
    given = inputs(7, torch.float32)
    before = [each.detach().clone() for each in given]
    loss, _ = cross_entropy(given[0] * 1e4, given[1], given[2], given[3])
    loss.backward()
    assert loss.isfinite()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in given[:3])
    torch.testing.assert_close([each.detach() for each in given], before, rtol=0, atol=0)


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
