"""Dropout from bytes: rates, means, the random state it depends on, and its gradient."""

import pytest
import torch
from torch import Tensor

from regard.kernels.cpu import dropout

SIZE = 200_003


@pytest.mark.parametrize("rate", [1 / 256, 0.1, 0.25, 0.3, 0.5, 0.9, 255 / 256])
def test_rate_and_mean(rate: float):
    """The rate is the nearest 256th, and what is left is scaled for that one, so the mean is kept."""
    rounded = round(rate * 256) / 256
    found = dropout(torch.ones(SIZE, dtype=torch.float64), rate)
    error = 5 * (rounded * (1 - rounded) / SIZE) ** 0.5
    assert (found == 0).double().mean().item() == pytest.approx(rounded, abs=error)
    torch.testing.assert_close(found.unique(), torch.tensor([0, 1 / (1 - rounded)], dtype=torch.float64))
    assert found.mean().item() == pytest.approx(1.0, abs=error / (1 - rounded))


def test_the_highest_rates_leave_something():
    """0.999 is nearer to 256/256 than to 255/256, which would leave nothing to scale."""
    found = dropout(torch.ones(SIZE), 0.999)
    assert found.isfinite().all()
    assert found.unique().tolist() == [0.0, 256.0]


def test_deterministic_in_torch_s_seed():
    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return torch.stack([dropout(torch.ones(101), 0.5) for _ in range(2)])

    first = draw(3)
    assert torch.equal(draw(3), first)
    assert not torch.equal(draw(5), first)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("shape", [(), (1,), (3, 5, 7), (2, 0, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradient_is_the_same_mask(shape: tuple[int, ...], dtype: torch.dtype):
    states = torch.randn(shape, dtype=dtype).requires_grad_()
    found = dropout(states, 0.5)
    assert (found.shape, found.dtype) == (states.shape, dtype)
    (gradient,) = torch.autograd.grad(found.sum(), states)
    torch.testing.assert_close(gradient * states, found, rtol=0, atol=0)
    assert set(gradient.flatten().tolist()) <= {0.0, 2.0}


def test_transposed_states_keep_their_shape_and_input():
    states = torch.randn(5, 3).t()
    before = states.clone()
    found = dropout(states, 0.5)
    assert torch.equal(states, before)
    torch.testing.assert_close(found[found != 0], 2 * states[found != 0])


def test_saves_the_mask_alone():
    """One tensor of the states' size, and not the states: they may be freed, or written over."""
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    states = torch.randn(3, 7).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        found = dropout(states * 1.0, 0.5)
    assert [each.shape for each in saved if each.ndim] == [states.shape]
    assert set(saved[-1].flatten().tolist()) == {0.0, 2.0}
    found.sum().backward()


def test_as_an_operator_it_drops_the_same():
    states = torch.randn(7, 11)
    torch.manual_seed(3)
    dropped = dropout(states, 0.3)
    torch.manual_seed(3)
    factors = torch.ops.regard.dropout_factors.default(states, round(0.3 * 256))
    assert torch.equal(dropped, states * factors)


def test_the_operator_is_fit_for_graphs():
    names = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.regard.dropout_factors.default, (torch.randn(5, 3), 64), test_utils=names)
