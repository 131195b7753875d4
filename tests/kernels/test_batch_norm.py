"""Batch normalisation against PyTorch's, and the order in which an image's code is made."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.kernels.batch_norm import batch_norm, plain
from regard.layers.batch_norm import BatchNorm
from regard.layers.image_code import ImageCode

CHANNELS, EPSILON = 5, 1e-5
LAYOUTS = [torch.contiguous_format, torch.channels_last]


def inputs(dtype: torch.dtype = torch.float64, side: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """States whose mean is not near 0, weight and bias, with gradients."""
    states = 3 + torch.randn(7, CHANNELS, side, 2 * side, dtype=dtype)
    weight, bias = torch.randn(2, CHANNELS, dtype=dtype).unbind()
    return states.requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()


def gradients(found: Tensor, given: tuple[Tensor, ...]) -> list[Tensor]:
    upstream = torch.linspace(-1, 1, found.numel(), dtype=found.dtype).sin().view(found.shape)
    return [*torch.autograd.grad((found * upstream).sum(), given)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equals_the_plain_form(layout: torch.memory_format):
    given = inputs()
    laid_out = given[0].clone(memory_format=layout)
    found, mean, variance = batch_norm(laid_out, *given[1:], EPSILON)
    wanted = plain(*given, EPSILON)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients(found, given), gradients(wanted, given), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(mean, given[0].mean((0, 2, 3)).detach())
    torch.testing.assert_close(variance, given[0].var((0, 2, 3), correction=0).detach())
    assert not mean.requires_grad
    assert not variance.requires_grad


def test_gradcheck():
    given = inputs(side=1)
    assert torch.autograd.gradcheck(lambda x, w, b: batch_norm(x, w, b, EPSILON)[0], given)


def test_is_right_in_float32_where_the_channels_of_a_pixel_stand_together():
    """PyTorch is wrong by 6e-6 here, with more numbers by more; no gradient is worse than PyTorch's."""
    given = inputs(torch.float32, side=61)
    states, weight, bias = doubled = tuple(each.detach().double().requires_grad_() for each in given)
    exact = plain(states, weight, bias, EPSILON)
    wanted = [exact.detach(), *gradients(exact, doubled)]

    def errors(form: Callable[[Tensor], Tensor]) -> list[float]:
        found = form(given[0].clone(memory_format=torch.channels_last))
        pairs = zip([found.detach(), *gradients(found, given)], wanted, strict=True)
        return [((one.double() - other).abs().max() / other.abs().max()).item() for one, other in pairs]

    ours = errors(lambda states: batch_norm(states, *given[1:], EPSILON)[0])
    assert ours[0] < 1e-6
    assert all(
        one <= other for one, other in zip(ours, errors(lambda each: plain(each, *given[1:], EPSILON)), strict=True)
    )


def test_a_second_gradient_is_refused():
    given = inputs()
    (gradient,) = torch.autograd.grad(batch_norm(*given, EPSILON)[0].square().sum(), given[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_the_module_is_pytorchs_by_its_numbers():
    torch.manual_seed(3)
    ours, theirs = BatchNorm(CHANNELS).double(), nn.BatchNorm2d(CHANNELS).double()
    for _ in range(3):
        states = inputs()[0].detach()
        torch.testing.assert_close(ours(states), theirs(states), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)
    states = inputs()[0].detach()
    torch.testing.assert_close(ours.eval()(states), theirs.eval()(states), rtol=1e-12, atol=1e-12)


def test_a_single_number_a_channel_is_refused():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        BatchNorm(CHANNELS)(torch.randn(1, CHANNELS, 1, 1))


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_code_is_the_papers_by_its_numbers(channels: int):
    """Convolution, normalisation, ReLU and then the largest of 2 x 2."""
    code = ImageCode(19, channels, CHANNELS, 7).double()
    pixels = torch.randn(11, channels, 19, 19, dtype=torch.float64)
    states = pixels
    for stage in code.stages:
        convolution, norm = next(iter(stage.children())), functional.batch_norm
        states = functional.max_pool2d(torch.relu(norm(convolution(states), None, None, training=True)), 2)
    torch.testing.assert_close(code(pixels), code.output(states.flatten(1)), rtol=1e-10, atol=1e-10)
