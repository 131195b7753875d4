"""Linear maps in one call, in float32 and in bytes, beside the plain ones."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from regard.kernels import fused_layer
from regard.kernels.fused_layer import Affine, library, linear, serves
from regard.kernels.int8 import FILL, LARGEST, Codes

pytestmark = pytest.mark.skipif(library() is None, reason="no kernel")
ROWS, SIZES = (1, 2, 3, 5, 11, 12, 13, 17, 37), ((1, 1), (7, 5), (16, 32), (17, 67), (131, 33), (389, 19))


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.usefixtures("machine")
@torch.no_grad()
def test_a_linear_map_is_as_exact_as_pytorch_s(inputs: int, outputs: int):
    for rows in ROWS:
        check_linear(rows, inputs, outputs)


def check_linear(rows: int, inputs: int, outputs: int) -> None:
    x, weight, bias = drawn(rows, inputs), drawn(outputs, inputs), drawn(outputs)
    wanted = functional.linear(x.double(), weight.double(), bias.double())
    error = (linear(x, Affine(weight, bias)) - wanted).square().mean().sqrt()
    plain = (functional.linear(x, weight, bias) - wanted).square().mean().sqrt()
    assert error <= 2 * plain + 1e-6
    without = linear(x[None], Affine(weight, None))[0]
    torch.testing.assert_close(without, functional.linear(x, weight), rtol=1e-5, atol=1e-4)


def clear(x: Tensor) -> Tensor:
    """Zeros for numbers so near the middle between two bytes that the last digit decides which of them they become."""
    steps = x * (LARGEST / x.abs().amax(-1, keepdim=True))
    return torch.where((steps - steps.floor() - 0.5).abs() < 1e-3, 0.0, x)


@pytest.mark.parametrize(("inputs", "outputs"), SIZES)
@pytest.mark.usefixtures("machine")
@torch.no_grad()
def test_a_map_of_bytes_is_the_plain_form_of_it(inputs: int, outputs: int):
    weight, bias = drawn(outputs, inputs), drawn(outputs)
    codes = Codes.of(weight)
    assert codes.codes.shape == (outputs, -(-inputs // FILL) * FILL)
    for rows in ROWS:
        x = clear(drawn(rows, inputs))
        torch.testing.assert_close(linear(x, Affine(codes, bias)), codes.multiply(x) + bias, rtol=1e-5, atol=1e-4)


@torch.no_grad()
def test_bytes_are_the_nearest():
    """No number is further from what stands for it than half a step, and a row's largest has the largest code."""
    weight = drawn(13, 101)
    codes = Codes.of(weight)
    assert ((codes.matrix() - weight).abs() <= 0.5001 * codes.scale[:, None]).all()
    assert (codes.codes.abs().amax(1) == 127).all()
    assert codes.shape == (13, 101)


@torch.no_grad()
def test_a_row_of_bytes_does_not_depend_on_the_others():
    codes, x = Codes.of(drawn(19, 67)), drawn(31, 67)
    x[3] *= 1000
    together = linear(x, Affine(codes, None))
    for row in range(31):
        assert torch.equal(linear(x[row : row + 1], Affine(codes, None))[0], together[row])


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
@torch.no_grad()
def test_what_is_no_number_stays_none(wrong: float):
    codes, x = Codes.of(drawn(19, 67)), drawn(3, 67)
    x[1, 5], x[2] = wrong, 0.0
    found = linear(x, Affine(codes, drawn(19)))
    assert found[0].isfinite().all()
    assert not found[1].isfinite().any()
    assert torch.equal(found[2], drawn(19))


def test_what_it_serves(monkeypatch: pytest.MonkeyPatch):
    x = drawn(3, 5)
    assert not serves(x)  # there are gradients
    with torch.no_grad():
        assert serves(x)
        assert not serves(x.double())
        with torch.autocast("cpu", torch.bfloat16):
            assert not serves(x)
        with FlopCounterMode(display=False):
            assert not serves(x)
        monkeypatch.setattr(fused_layer, "library", lambda: None)
        assert not serves(x)
