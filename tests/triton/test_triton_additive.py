"""The Triton kernel against the plain additive scores: `make test-triton`, on a CPU through Triton's interpreter."""

import os

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="no Triton here; `make test-triton` has an environment with it")
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("no GPU; TRITON_INTERPRET=1 interprets the kernel", allow_module_level=True)

from regard.kernels import triton_additive as kernel  # noqa: E402
from regard.kernels.cpu import additive  # noqa: E402


def exact(query: Tensor, key: Tensor, energy: Tensor, pull: Tensor) -> list[Tensor]:
    """Scores and gradients of the plain form in float64."""
    leaves = [each.double().requires_grad_() for each in (query, key, energy)]
    scores = additive(*leaves)
    return [scores.detach(), *torch.autograd.grad(scores, leaves, pull.double())]


def found(query: Tensor, key: Tensor, energy: Tensor, pull: Tensor) -> list[Tensor]:
    return [kernel.scores(query, key, energy), *kernel.gradients(pull, query, key, energy)]


def drawn(batch: int, queries: int, keys: int, width: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (batch, queries, width), (batch, keys, width), (batch, width), (batch, queries, keys)
    return [torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes]


@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 7), (1, 37, 41, 3), (2, 1, 5, 3), (1, 1, 1, 1), (2, 0, 5, 3), (0, 3, 5, 7)]
)
def test_every_shape(shape: tuple[int, int, int, int]):
    given = drawn(*shape)
    torch.testing.assert_close([each.double() for each in found(*given)], exact(*given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("spread", "apart"), [(1e-5, 0.0), (30.0, 0.0), (1.0, 8.0), (1.0, 60.0), (1e4, 0.0)])
def test_numbers_of_every_size(spread: float, apart: float):
    query, key, energy, pull = drawn(2, 5, 7, 11)
    given = query * spread + apart, key * spread - apart, energy, pull
    for ours, wanted in zip(found(*given), exact(*given), strict=True):
        allowed = 2e-6 * wanted.abs().max().item() + 1e-12
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=allowed)


def test_nan_comes_out_where_it_went_in():
    query, key, energy, pull = drawn(1, 3, 5, 7)
    key[0, 2, 3] = torch.nan
    assert found(query, key, energy, pull)[0].isnan().nonzero()[:, 2].unique().tolist() == [2]


def test_bf16():
    query, key, energy, pull = drawn(2, 5, 7, 11)
    given = query.bfloat16(), key.bfloat16(), energy, pull
    torch.testing.assert_close([each.double() for each in found(*given)], exact(*given), rtol=1e-5, atol=1e-5)
