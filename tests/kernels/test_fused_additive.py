"""The fused additive scores against the plain ones, on every kind of machine, and what PyTorch asks of an operator."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.kernels import cpu as module
from regard.kernels.cpu import additive, additive_library, can_fuse, prepare_keys, score_additive

pytestmark = pytest.mark.skipif(additive_library() is None, reason="no kernel")

Score = Callable[[Tensor, Tensor, Tensor], Tensor]


def outcome(score: Score, *given: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Scores, and the gradients of a weighted sum of them, in float64."""
    leaves = [each.detach().to(dtype).requires_grad_() for each in given]
    scores = score(*leaves)
    pull = torch.linspace(-1, 1, scores.numel(), dtype=torch.float64).sin().view_as(scores).to(scores.dtype)
    gradients = torch.autograd.grad(scores, leaves, pull, materialize_grads=True)
    assert [each.dtype for each in (scores, *gradients)] == 4 * [dtype]
    return [each.detach().double() for each in (scores, *gradients)]


def errors(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    return [(one - other).square().mean().sqrt().item() for one, other in zip(found, exact, strict=True)]


INPUTS: dict[str, tuple[float, float, float]] = {
    "random": (1.0, 1.0, 0.0),
    "small": (0.05, 0.05, 0.0),
    "tiny": (1e-5, 1e-5, 0.0),
    "large": (4.0, 4.0, 0.0),
    "saturated": (30.0, 30.0, 0.0),
    "opposite": (1.0, 1.0, 9.0),
    "opposite and beyond shared exponentials": (1.0, 1.0, 60.0),
    "keys beyond all exponentials": (1.0, 1e4, 0.0),
    "queries beyond all exponentials": (1e30, 1.0, 0.0),
    "whose sums overflow": (7e37, 7e37, 0.0),
    "huge and opposite": (1e37, 1e37, 2e38),
}
"""How far queries and keys are spread, and how far they lie apart."""
NOTHING = 1e-15
"""sech^2 where it is 0 in float32, of an argument that was cut off."""


@pytest.mark.parametrize("name", INPUTS)
def test_rounding_is_at_most_twice_that_of_the_plain_form(name: str, machine: str):
    of_queries, of_keys, apart = INPUTS[name]
    query, key, energy = torch.randn(3, 31, 61) * of_queries + apart, torch.randn(3, 37, 61) * of_keys - apart, 61
    given = query, key, torch.randn(energy) / energy**0.5
    exact = outcome(additive, *given, dtype=torch.float64)
    ours = errors(outcome(score_additive, *given, dtype=torch.float32), exact)
    theirs = errors(outcome(additive, *given, dtype=torch.float32), exact)
    assert all(one <= 2 * other + NOTHING for one, other in zip(ours, theirs, strict=True)), (ours, theirs)
    assert ours[0] > 0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_bf16(scale: float, machine: str):
    """Sums are in float32: no error is above that of the plain form, but for the rounding of the result."""
    given = [torch.randn(shape).bfloat16() for shape in ((3, 31, 61), (3, 37, 61), (61,))]
    given = [given[0] * scale, given[1] * scale, given[2]]
    exact = outcome(additive, *given, dtype=torch.float64)
    ours = errors(outcome(score_additive, *given, dtype=torch.bfloat16), exact)
    theirs = errors(outcome(additive, *given, dtype=torch.bfloat16), exact)
    assert all(one <= 1.001 * other for one, other in zip(ours, theirs, strict=True)), (ours, theirs)


SHAPES = [
    ((), 3, 5, 7),
    ((2,), 1, 1, 1),
    ((2,), 5, 1, 17),
    ((2, 3), 1, 5, 16),
    ((2, 3), 5, 7, 33),
    ((1,), 67, 263, 5),
    ((0,), 3, 5, 7),
    ((2,), 0, 5, 7),
    ((2,), 3, 0, 7),
    ((2,), 3, 5, 0),
]


@pytest.mark.parametrize(("batch", "queries", "keys", "width"), SHAPES, ids=str)
def test_every_shape(batch: tuple[int, ...], queries: int, keys: int, width: int, machine: str):
    for heads in {(), batch[1:], batch}:
        given = torch.randn(*batch, queries, width), torch.randn(*batch, keys, width), torch.randn(*heads, width)
        found = outcome(score_additive, *given, dtype=torch.float32)
        wanted = outcome(additive, *given, dtype=torch.float64)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_sides_that_are_shared_or_lie_in_another_order():
    query, key = torch.randn(7, 3, 5).transpose(0, 1), torch.randn(5, 11).t()[None]
    given = query, key, torch.randn(5, 2).t()[1]
    torch.testing.assert_close(
        outcome(score_additive, *given, dtype=torch.float32),
        outcome(additive, *given, dtype=torch.float64),
        rtol=1e-4,
        atol=1e-5,
    )
    energy = torch.randn(3, 1, 5)
    torch.testing.assert_close(
        score_additive(query[:, None], key[None].expand(3, 2, -1, -1), energy),
        additive(query[:, None], key[None].expand(3, 2, -1, -1), energy),
    )


def test_nan_comes_out_where_it_went_in(machine: str):
    query, key = torch.randn(2, 5, 7), torch.randn(2, 6, 7)
    query[0, 3, 2] = key[1, 4, 6] = torch.nan
    broken = torch.zeros(2, 5, 6, dtype=torch.bool)
    broken[0, 3], broken[1, :, 4] = True, True
    assert torch.equal(score_additive(query, key, torch.ones(7)).isnan(), broken)
    assert torch.equal(score_additive(query * 100, key * 100, torch.ones(7)).isnan(), broken)


def test_no_number_depends_on_threads_or_on_what_else_is_computed():
    given = torch.randn(7, 67, 37), torch.randn(7, 263, 37), torch.randn(37)
    alone = outcome(score_additive, *given, dtype=torch.float32)
    torch.set_num_threads(2)
    together = outcome(score_additive, *given, dtype=torch.float32)
    torch.set_num_threads(1)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))
    query, key, energy = given
    part = score_additive(query[2:3, 65:], key[2:3, 5:12], energy)
    assert torch.equal(part, score_additive(*given)[2:3, 65:, 5:12])


def test_mixed_precision():
    """Under autocast queries may be rounded and keys, to which a bias was added, not."""
    query, key, energy = torch.randn(2, 3, 7).bfloat16(), torch.randn(2, 5, 7), torch.randn(7)
    found = score_additive(query, key, energy)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, additive(query.float(), key, energy))


def test_second_derivatives_take_the_plain_form():
    given = [torch.randn(shape, requires_grad=True) for shape in ((2, 3, 5), (2, 7, 5), (5,))]
    exact = [each.detach().double().requires_grad_() for each in given]
    results = []
    for score, leaves in ((score_additive, given), (additive, exact)):
        first = torch.autograd.grad(score(*leaves).sin().sum(), leaves, create_graph=True)
        results.append(torch.autograd.grad(torch.stack([each.cos().sum() for each in first]).sum(), leaves))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)


def operands(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """As the operators take them."""
    shapes = (2, 3, 5), (2, 7, 5), (2, 5)
    query, key, energy = (torch.randn(shape, requires_grad=True) for shape in shapes)
    query, key = (each.detach().to(dtype).requires_grad_() for each in (query, key))
    return [query, key, prepare_keys(key), energy]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["additive_exponentials", "additive_scores", "additive_gradients"])
def test_operators_keep_pytorch_s_rules(name: str, dtype: torch.dtype):
    sides = operands(dtype)
    arguments: dict[str, list[Tensor]] = {
        "additive_exponentials": [sides[1].detach()],
        "additive_scores": sides,
        "additive_gradients": [torch.randn(2, 3, 7).to(dtype).requires_grad_(), *sides],
    }
    torch.library.opcheck(getattr(torch.ops.regard, name).default, tuple(arguments[name]))


def test_without_a_compiler_the_plain_form_serves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "additive_library", lambda: None)
    given = torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(5)
    assert not can_fuse(given[1])
    found, wanted = (outcome(score, *given, dtype=torch.float32) for score in (score_additive, additive))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "device"), [(torch.float64, "cpu"), (torch.float16, "cpu"), (torch.float32, "meta")], ids=str
)
def test_what_the_kernel_does_not_take(dtype: torch.dtype, device: str):
    assert not can_fuse(torch.zeros(2, 3, 5, dtype=dtype, device=device))
    assert can_fuse(torch.zeros(2, 3, 5))
