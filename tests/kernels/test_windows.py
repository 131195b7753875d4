"""Windows read by blocks against the dense mask, values and gradients, and what they make."""

import pytest
import torch

from regard.attention import Attend
from regard.attention.masks import Dense, Mask, causal, padding, window
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.experiments.measuring import peak
from regard.kernels.product import fused
from regard.kernels.windows import BLOCK, pays, windowed


@pytest.mark.parametrize("batch", [(2, 3), (2,), ()])
@pytest.mark.parametrize(
    ("queries", "keys", "before", "after", "first"),
    [
        (300, 300, 8, 8, 0),
        (300, 300, 5, 0, 0),
        (100, 310, 7, 3, 200),
        (310, 100, 3, 4, 0),
        (130, 500, 80, 10, 100),
        (1, 300, 9, 0, 299),
        (70, 300, 4, 2, 300),
        (64, 300, 4, 2, -40),
    ],
)
@pytest.mark.parametrize("padded", [False, True])
def test_blocks_are_the_window(
    batch: tuple, queries: int, keys: int, before: int, after: int, first: int, padded: bool
):
    shapes = (*batch, queries, 5), (*batch, keys, 5), (*batch, keys, 7)
    query, key, value = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    allowed = padding(torch.randint(1, keys, (*batch[:1], *[1] * len(batch[1:]))), keys).dense() if padded else None
    dense = window(queries, keys, before=before, after=after, first=first).dense()
    wanted = fused(query, key, value, dense if allowed is None else dense & allowed)
    found = windowed(query, key, value, (before, after, first), allowed)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(each.square().sum(), (query, key, value)) for each in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("mask", "near"),
    [
        (window(5, before=2, after=1), (2, 1, 0)),
        (window(3, 7, before=2, after=0), (2, 0, 4)),
        (window(5, before=2), None),
        (causal(5), None),
        (padding(torch.tensor([3, 5]), 5), None),
        (window(5, before=2, after=1) & padding(torch.tensor([3, 5]), 5), (2, 1, 0)),
        (padding(torch.tensor([3, 5]), 5) & window(5, before=2, after=1), (2, 1, 0)),
        (window(5, before=2, after=1) & causal(5), None),
        (window(5, before=2, after=1) & window(5, before=1, after=1), None),
    ],
)
def test_masks_that_are_windows(mask: Mask, near: tuple[int, int, int] | None):
    assert (None if mask.near is None else mask.near[:3]) == near


def test_blocks_pay_where_they_leave_out_half():
    assert pays(BLOCK, 1000, 8, 8)
    assert not pays(BLOCK - 1, 1000, 8, 8)
    assert not pays(1000, 2 * (BLOCK + 16) - 1, 8, 8)


@pytest.mark.parametrize("padded", [False, True])
def test_a_long_window_makes_nothing_as_large_as_the_scores(padded: bool):
    states = torch.randn(2, 2048, 6, requires_grad=True)
    mask = window(2048, before=8, after=8)
    mask = mask & padding(torch.tensor([2048, 999]), 2048) if padded else mask
    attend, memory = Attend(Dot()), Memory(states, states, mask, clean=False)
    found, wanted = attend(states, memory), attend(states, Memory(states, states, Dense(mask.dense())))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    gradient = torch.ones_like(states)
    scores = 2 * 2048 * 2048 * 4
    assert peak(lambda: torch.autograd.grad(attend(states, memory), states, gradient)) < scores / 3
