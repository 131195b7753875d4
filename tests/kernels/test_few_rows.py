"""Products of a few rows and cells by the kernel, beside those of PyTorch."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.kernels import cpu
from regard.kernels.cpu import MOST_ROWS, linear, step_cell, supports_tensors, use_search_kernels


@pytest.fixture
def kernel(machine: str, monkeypatch: pytest.MonkeyPatch):
    """The kernel for each of this machine's instructions, without gradients, for small products too."""
    monkeypatch.setattr(cpu, "FEWEST_WEIGHTS", 0)
    with use_search_kernels():
        yield machine


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, MOST_ROWS, MOST_ROWS + 1])
@pytest.mark.parametrize(("width", "columns", "biased"), [(64, 33, True), (7, 2, False), (50, 5, True)])
def test_a_product_of_a_few_rows_is_the_linear_map(rows: int, width: int, columns: int, biased: bool):
    inputs, weight = torch.randn(width, rows).t(), torch.randn(columns, width)
    bias = torch.randn(columns) if biased else None
    assert supports_tensors(inputs, weight)
    torch.testing.assert_close(
        linear(inputs, weight, bias), functional.linear(inputs, weight, bias), atol=1e-5, rtol=1e-5
    )


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize(("rows", "width"), [(1, 32), (3, 21), (9, 16)])
def test_a_step_is_that_of_the_cell(kind: Any, rows: int, width: int):
    cell = kind(5, width)
    inputs, state = torch.randn(rows, 5) * 3, torch.randn(rows, 2 * width if kind is nn.LSTMCell else width) * 3
    expected = cell(inputs, state.chunk(2, -1)) if kind is nn.LSTMCell else (cell(inputs, state),)
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    torch.testing.assert_close(step_cell(inputs, state, weights), torch.cat(expected, -1), atol=1e-5, rtol=1e-5)


def test_what_it_does_not_serve():
    numbers = torch.zeros(1, 5)
    with torch.no_grad():
        assert not supports_tensors(numbers)  # a loss may be computed
    with use_search_kernels():
        with torch.enable_grad():
            assert not supports_tensors(numbers)
        assert not supports_tensors(numbers.double())
        with torch.autocast("cpu"):
            assert not supports_tensors(numbers)
