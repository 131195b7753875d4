"""PyTorch's fused attention against the plain lookup: values and gradients, under every kind of mask."""

import itertools
import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from regard.attention import Attend
from regard.attention import attend as attend_plainly
from regard.attention.masks import Mask, causal, padding, window
from regard.attention.memory import Memory
from regard.attention.scores import Dot, ScaledDot
from regard.experiments.measuring import peak
from regard.kernels import product
from regard.kernels.product import Masked, fused, fused_is_faster

Lookup = tuple[Tensor, Tensor, Tensor]
"""Query, key and value."""


def inputs(queries: int, keys: int, batch: tuple[int, ...] = (2, 3)) -> Lookup:
    """Query, key and value, the values of another width than the keys."""
    shapes = (*batch, queries, 5), (*batch, keys, 5), (*batch, keys, 7)
    query, key, value = (torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes)
    return query, key, value


def assert_equal(given: Lookup, found: Tensor, allowed: Tensor | None) -> None:
    wanted, _ = attend_plainly(*given, score=Dot(), mask=allowed)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad(each.square().sum(), given, materialize_grads=True) for each in (found, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 7), (7, 3), (1, 11)])
def test_without_a_mask(sizes: tuple[int, int]):
    given = inputs(*sizes)
    assert_equal(given, fused(*given), None)


@pytest.mark.parametrize(
    "mask", [None, causal(131), padding(torch.tensor([131, 70]), 131), window(131, before=3, after=2)]
)
def test_a_scale_costs_no_pass_over_the_queries(mask: Mask | None):
    """On the fused path a scaled product takes what one without takes, and gives what the plain path gives."""
    query, key = torch.randn(2, 131, 512, dtype=torch.float64), torch.randn(2, 131, 512, dtype=torch.float64)
    memory, taken = Memory(key, key, mask), []
    for score in (Dot(), ScaledDot()):
        attend = Attend(score)
        with torch.no_grad():
            wanted, _ = attend_plainly(query, key, key, score=score, mask=mask)
            torch.testing.assert_close(attend(query, memory), wanted, rtol=1e-12, atol=1e-12)
            taken.append(peak(lambda attend=attend: attend(query, memory)))  # the mask is made by now
    assert taken[0] == taken[1]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_causal(size: int):
    given = inputs(size, size)
    found = fused(*given, causal=True)
    assert_equal(given, found, causal(size, size).dense())
    torch.testing.assert_close(found, fused(*given, causal(size, size).dense()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (2, 1, 5, 7), (2, 1, 1, 7), (5, 7), (1, 7), (5, 1)])
def test_masks_that_broadcast(shape: tuple[int, ...]):
    given, allowed = inputs(5, 7), torch.rand(shape) < 0.5
    assert_equal(given, fused(*given, allowed), allowed)


def test_row_20_rows_that_may_read_nothing():
    given, allowed = inputs(5, 7), torch.rand(2, 1, 5, 7) < 0.7
    allowed[0], allowed[1, 0, 3] = False, False
    found = fused(*given, allowed)
    assert_equal(given, found, allowed)
    assert not found[0].any()
    assert not found[1, :, 3].any()
    gradients = torch.autograd.grad(fused(*given, allowed).sum(), given)
    assert all(each.isfinite().all() for each in gradients)
    assert not any(each[0].any() for each in gradients)


def test_no_key_at_all_is_zeros_with_gradients():
    """Padding that keeps its axis of one."""
    given = inputs(5, 7)
    allowed = padding(torch.tensor([0, 7]), 7).over_heads().dense()
    assert_equal(given, fused(*given, allowed), allowed)
    assert not fused(*given, allowed)[0].any()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("masked", ["none", "keys", "causal"])
def test_the_choice_is_made_by_the_table(half: bool, training: bool, masked: Masked, monkeypatch: pytest.MonkeyPatch):
    table = dict.fromkeys(product.LEAST, 10**9) | {(half, training, masked): 15}
    monkeypatch.setattr(product, "least", lambda: table)
    query, key, _ = (each.detach().to(torch.bfloat16 if half else torch.float32) for each in inputs(3, 5))
    key.requires_grad_(training)
    assert fused_is_faster(query, key, masked)
    assert not fused_is_faster(query[..., :2, :], key, masked)
    with torch.no_grad():
        assert fused_is_faster(query, key, masked) is not training
    assert not fused_is_faster(query.float() if half else query.bfloat16(), key, masked)


@pytest.mark.parametrize("tiles", [False, True])
def test_every_case_has_a_rule(tiles: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles)
    found = product.least.__wrapped__()
    assert set(found) == {*itertools.product((False, True), (False, True), get_args(Masked))}
    assert (found[True, False, "none"] == 0) is tiles


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_no_weights_are_kept_whatever_the_axes_and_widths(batch: tuple[int, ...], masked: bool):
    query, key, value = (each.detach().requires_grad_() for each in inputs(300, 310, batch))
    allowed = padding(torch.full(batch, 290), 310).dense() if masked else None
    size = 300 * 310 * 8 * math.prod(batch)
    gradient = torch.ones(*batch, 300, 7, dtype=torch.float64)
    assert (
        peak(lambda: torch.autograd.grad(fused(query, key, value, allowed), (query, key, value), gradient)) < size / 2
    )
    wanted = attend_plainly(query, key, value, score=Dot(), mask=allowed)[0]
    torch.testing.assert_close(fused(query, key, value, allowed), wanted, rtol=1e-12, atol=1e-12)
