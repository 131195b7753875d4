"""Rotations by the kernel: those of float64 oracles, with their gradients, wherever states and turns lie in memory."""

import pytest
import torch
from torch import Tensor

from regard.attention.positions import cos_sin
from regard.kernels import rotary
from regard.kernels.rotary import can_use_kernel, rotate_pairs, rotate_plainly

LAYOUTS = {
    "as they are": lambda states: states,
    "heads of a projection": lambda states: states.transpose(1, 2).contiguous().transpose(1, 2),
    "a slice of wider ones": lambda states: torch.cat([states, states], -1)[..., : states.shape[-1]],
    "columns apart": lambda states: states.mT.contiguous().mT,
    "one row for all": lambda states: states[:1].expand_as(states),
}


def sample(dtype: torch.dtype, width: int, positions: int = 7) -> tuple[Tensor, Tensor]:
    torch.manual_seed(width)
    angles = 1.5 * cos_sin(torch.arange(3 * positions), width, 10_000.0, None, torch.float32)
    return torch.randn(3, 5, positions, width).to(dtype), angles.to(dtype)


def oracle(states: Tensor, angles: Tensor, first: int) -> Tensor:
    """(x + i y)(cos + i sin) of each pair, in float64."""
    half = states.shape[-1] // 2
    cos, sin = angles[..., first : first + states.shape[-2], half:].double()
    product = torch.complex(*states.double().split(half, -1)) * torch.complex(cos, sin)
    return torch.cat([product.real, product.imag], -1)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("width", [2, 6, 64, 70])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rotations_of_any_layout(layout: str, width: int):
    states, angles = sample(torch.float32, width)
    states = LAYOUTS[layout](states)
    assert can_use_kernel(states, angles)
    found, expected = rotate_pairs(states, angles, 4), oracle(states, angles, 4)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-6)
    assert found.stride() == torch.empty_like(states.contiguous() if layout == "columns apart" else states).stride()


@pytest.mark.usefixtures("machine")
def test_bfloat16_is_rounded_once():
    states, angles = sample(torch.bfloat16, 34)
    found, expected = rotate_pairs(states, angles, 2), oracle(states, angles, 2)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-3)
    assert (found - expected).abs().mean() <= (rotate_plainly(states, angles, 2) - expected).abs().mean()


@pytest.mark.usefixtures("machine")
def test_rows_with_positions_of_their_own():
    states, _ = sample(torch.float32, 6)
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [2, 3, 4, 5, 6, 7, 8], [9, 9, 1, 0, 0, 3, 7]])
    angles = cos_sin(places, 6, 10_000.0, None, torch.float32).unsqueeze(2)
    assert can_use_kernel(states, angles)
    torch.testing.assert_close(rotate_pairs(states, angles).double(), oracle(states, angles, 0), rtol=0, atol=2e-6)


@pytest.mark.usefixtures("machine")
def test_first_and_second_gradients():
    states, angles = sample(torch.float32, 6)
    states.requires_grad_()
    both: list[tuple[Tensor, ...]] = []
    for function in (rotate_pairs, rotate_plainly):
        found = function(states, angles, 3)
        (first,) = torch.autograd.grad(found.pow(3).sum(), states, create_graph=True)
        both.append((found, first, *torch.autograd.grad(first.pow(2).sum(), states)))
    torch.testing.assert_close(both[0], both[1], rtol=1e-4, atol=1e-4)


def test_transforms_and_other_types_are_plain(monkeypatch: pytest.MonkeyPatch):
    states, angles = sample(torch.float32, 6)
    expected = rotate_plainly(states, angles)
    monkeypatch.setattr(rotary, "_rotate", pytest.fail)
    slope = torch.func.grad(lambda each: (rotate_pairs(each, angles) ** 2).sum() / 2)(states)
    torch.testing.assert_close(slope, 1.5**2 * states)
    double = rotate_pairs(states.double(), angles)
    torch.testing.assert_close(double, expected.double())
    assert double.dtype == torch.float64


def test_without_a_library_it_is_plain(monkeypatch: pytest.MonkeyPatch):
    states, angles = sample(torch.float32, 6)
    monkeypatch.setattr(rotary, "library", lambda: None)
    assert torch.equal(rotate_pairs(states, angles, 5), rotate_plainly(states, angles, 5))
