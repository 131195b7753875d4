"""Rounding: in float32 the error against float64 is at most twice that of plain PyTorch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention import Attend, attend
from regard.attention.align import softmax
from regard.attention.memory import Memory
from regard.attention.scores import Additive, Distance, InverseDistance, ScaledDot, Score
from regard.nn.recurrent import CELL_CLASSES, CellReader


def errors(
    ours: Callable[..., Tensor], theirs: Callable[..., Tensor], exact: Callable[..., Tensor]
) -> tuple[float, float]:
    """Root mean square errors of both over a few draws, forward and backward."""
    squares = torch.zeros(2, dtype=torch.float64)
    for _ in range(5):
        inputs = [torch.randn(2, size, 64) for size in (31, 37, 37)]
        results = []
        for function, dtype in ((exact, torch.float64), (ours, torch.float32), (theirs, torch.float32)):
            leaves = [each.to(dtype).requires_grad_() for each in inputs]
            context = function(*leaves)
            gradients = torch.autograd.grad(context.sin().sum(), leaves, materialize_grads=True)
            results.append([each.double() for each in (context, *gradients)])
        for index in range(2):
            squares[index] += sum((a - b).square().mean() for a, b in zip(results[index + 1], results[0], strict=True))
    return squares[0].sqrt().item(), squares[1].sqrt().item()


def read(score: Score) -> Callable[..., Tensor]:
    return lambda query, key, value: attend(query, key, value, score=score)[0]


@pytest.mark.parametrize("path", ["plain", "fused"])
def test_scaled_products(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Attend, "fused", path == "fused")
    module = Attend(ScaledDot())
    sdpa = functional.scaled_dot_product_attention
    ours, theirs = errors(lambda query, key, value: module(query, Memory(key, value)), sdpa, sdpa)
    assert 0 < ours <= 2 * theirs


def test_additive():
    single = Additive(64, 64, 31)
    double = Additive(64, 64, 31).double()
    double.load_state_dict(single.state_dict())

    def plain(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        hidden = torch.tanh((query @ single.query_weight)[:, :, None] + (key @ single.key_weight)[:, None])
        return torch.softmax(hidden @ single.energy, -1) @ value

    ours, theirs = errors(read(single), plain, read(double))
    assert 0 < ours <= 2 * theirs


@pytest.mark.parametrize(
    ("score", "plain"),
    [
        (Distance(5.0), lambda apart: torch.softmax(-apart.square() / 50, -1)),
        (InverseDistance(0.1), lambda apart: functional.normalize(1 / (apart + 0.1), p=1, dim=-1)),
    ],
)
def test_distances(score: Score, plain: Callable[[Tensor], Tensor]):
    ours, theirs = errors(read(score), lambda q, k, v: plain(torch.cdist(q, k)) @ v, read(score))
    assert 0 < ours <= 2 * theirs


def test_masked_softmax():
    """No more than the library's over minus infinity."""
    mask = torch.rand(2, 31, 64) < 0.7
    ours, theirs = errors(
        lambda scores, *_: softmax(scores * 5, mask),
        lambda scores, *_: torch.softmax((scores * 5).masked_fill(~mask, -torch.inf), -1),
        lambda scores, *_: softmax(scores * 5, mask),
    )
    assert 0 < ours <= 2 * theirs


def test_a_recurrence_of_37_steps():
    """The reader that steps through cells beside PyTorch's loop over the same cell."""
    cell = CELL_CLASSES["gru"](64, 31)
    both = CellReader(cell, cell)
    exact = CellReader(CELL_CLASSES["gru"](64, 31), CELL_CLASSES["gru"](64, 31)).double()
    exact.load_state_dict(both.state_dict())
    network = nn.GRU(64, 31, batch_first=True)
    network.load_state_dict({f"{name.removeprefix('cell.')}_l0": value for name, value in cell.state_dict().items()})
    lengths = torch.tensor([37, 37])
    ours, theirs = errors(
        lambda _, inputs, __: both(inputs, lengths)[0][..., :31],
        lambda _, inputs, __: network(inputs)[0],
        lambda _, inputs, __: exact(inputs, lengths)[0][..., :31],
    )
    assert 0 < ours <= 2 * theirs
