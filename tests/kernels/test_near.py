"""Windows of local alignments, taken out of the scores or of the memory: what all keys give, values and gradients."""

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, paths
from regard.attention.align import local
from regard.attention.align.protocol import Aligned
from regard.attention.heads import MultiHead
from regard.attention.masks import Dense, Mask, causal, padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive, ScaledDot
from regard.experiments.measuring import peak
from regard.kernels.additive import exponentials
from regard.kernels.windows import LEAST_NUMBERS, LEAST_SCORES, around, fewer_is_faster, picked, picking_is_faster
from regard.models.aligns import AlignName
from regard.testing import check_attention
from tests.laws import cases

LOCAL = ("local-m", "local-p")
MASKS: dict[str, Mask | None] = {
    "none": None,
    "padding": padding(torch.tensor([17, 9, 3, 0]), 17),
    "causal": causal(11, 17),
    "holes": Dense(torch.rand(4, 11, 17, generator=torch.Generator().manual_seed(5)) < 0.5),
}


@pytest.fixture(params=["all keys", "windows"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces one of the two, whatever the sizes."""
    force(monkeypatch, request.param == "windows")
    return request.param


def force(monkeypatch: pytest.MonkeyPatch, windows: bool) -> None:
    monkeypatch.setattr(local, "fewer_is_faster", lambda scores, count: windows)
    monkeypatch.setattr(local, "picking_is_faster", lambda query, key, count: windows)


@pytest.mark.parametrize("reach", [0, 1, 2, 7])
@pytest.mark.parametrize("keys", [1, 3, 5, 11])
def test_every_key_that_is_near_is_among_them(reach: int, keys: int):
    centre = torch.linspace(-3, keys + 3, 97, dtype=torch.float64)
    places = around(centre[None], reach, keys)[0]
    assert places.shape[-1] == min(2 * reach + 1, keys)
    for where, row in zip(centre.tolist(), places.tolist(), strict=True):
        assert row == list(range(row[0], row[0] + len(row)))
        assert {key for key in range(keys) if abs(key - where) <= reach} <= {*row} <= {*range(keys)}


@pytest.mark.parametrize("batch", [(), (3,), (3, 2)])
def test_rows_that_are_picked(batch: tuple[int, ...]):
    tensor = torch.randn(*batch, 2, 11, 5).transpose(-2, -3).contiguous().transpose(-2, -3)[..., 0, :, :]
    places = torch.randint(0, 11, (*batch, 7))
    assert torch.equal(picked(tensor, places), torch.take_along_dim(tensor, places[..., None], -2))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("heads", [False, True])
def test_windows_give_what_all_keys_give(name: AlignName, mask: str, heads: bool, monkeypatch: pytest.MonkeyPatch):
    align, given = cases.align(name, 5).double(), MASKS[mask]
    query, scores = (torch.randn(4, 11, size, dtype=torch.float64) for size in (5, 17))
    state = torch.tensor([0, 2, 7, 15]) if name == "local-m" else None
    if heads:
        query, scores = (torch.stack([each, -each], 1) for each in (query, scores))
        given = None if given is None else given.over_heads()
    inputs = [scores.requires_grad_(), query.requires_grad_(), *align.parameters()]
    found: list[tuple[Tensor, Aligned, tuple[Tensor, ...]]] = []
    pull = torch.randn_like(scores)
    for windows in (False, True):
        force(monkeypatch, windows)
        aligned = align(scores, given, query, state)
        gradients = torch.autograd.grad(aligned.weights, inputs, pull, materialize_grads=True)
        found.append((aligned.weights, aligned, gradients))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1][2], found[0][2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1][1].state, found[0][1].state)


@pytest.mark.parametrize("mask", ["none", "padding"])
@pytest.mark.parametrize("score", cases.SCORES)
@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("queries", [1, 5])
def test_queries_read_their_own_keys(
    name: AlignName, score: str, mask: str, queries: int, monkeypatch: pytest.MonkeyPatch
):
    """Contexts, states and gradients of the queries, keys, values and parameters, and what is recorded."""
    compare, widths = cases.score(score)
    attend = Attend(compare, cases.align(name, widths[0])).double()
    query, key, value = (torch.randn(4, n, width) for n, width in zip((queries, 17, 17), widths, strict=True))
    inputs = [each.double().requires_grad_() for each in (query, key, value)]
    state, found = torch.tensor([0, 2, 7, 15]) if name == "local-m" else None, []
    pull = torch.randn(4, queries, widths[2]).double()
    for windows in (False, True):
        force(monkeypatch, windows)
        memory = attend.prepare(Memory(inputs[1], inputs[2], MASKS[mask]))
        read = attend.read(inputs[0], memory, state)
        with record(attend) as maps:
            attend.read(inputs[0], memory, state)
        torch.testing.assert_close(maps[""] @ memory.value, read.context, rtol=1e-12, atol=1e-12)
        gradients = torch.autograd.grad(read.context, [*inputs, *attend.parameters()], pull, materialize_grads=True)
        found.append((read.context, read.state, gradients))
    torch.testing.assert_close(found[1][:2], found[0][:2], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found[1][2], found[0][2], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("score", ["general", "additive"])
@pytest.mark.parametrize("queries", [1, 7])
def test_heads_obey_the_laws(name: AlignName, score: str, queries: int, path: str):
    attend = Attend(cases.score(score, heads=2)[0], cases.align(name, 5))
    check_attention(
        MultiHead(6, 2, attend=attend, head_width=5),
        queries=queries,
        keys=23,
        without=["the_order_of_keys_changes_nothing"] + ["rows_of_weights_sum_to_one"] * (name == "local-p"),
    )


def test_prepared_exponentials_are_picked_too(monkeypatch: pytest.MonkeyPatch):
    attend = Attend(Additive(5, 3, 7), cases.align("local-m", 5))
    memory = attend.prepare(Memory(torch.randn(2, 23, 3), torch.randn(2, 23, 3)))
    given = memory.exponentials
    if given is None:
        pytest.skip("there is no kernel that reads exponentials")
    force(monkeypatch, True)
    seen = []
    genuine = paths.fused_additive
    monkeypatch.setattr(paths, "fused_additive", lambda *sides: seen.append(sides) or genuine(*sides))
    attend.read(torch.randn(2, 1, 5), memory, torch.tensor([4, 20]))
    [(_, keys, _, ready)] = seen
    assert keys.shape == (1, 2, 5, 7)
    torch.testing.assert_close(ready, exponentials(keys))


def test_half_precision_has_every_place(path: str):
    """Of 700 keys, where bfloat16 has every fourth number alone, as many are read as the window has."""
    align = cases.align("local-p", 5).to(torch.bfloat16)
    query = torch.randn(2, 7, 5, dtype=torch.bfloat16)
    weights = align(torch.zeros(2, 7, 700, dtype=torch.bfloat16), None, query).weights
    assert weights.dtype == torch.bfloat16
    assert {*(weights > 0).sum(-1).flatten().tolist()} <= {4, 5}


def test_when_it_pays():
    assert fewer_is_faster(torch.empty(LEAST_SCORES // 256, 256), 21)
    assert not fewer_is_faster(torch.empty(LEAST_SCORES // 256 - 1, 256), 21)
    assert not fewer_is_faster(torch.empty(4096, 64), 21)
    one, several = torch.empty(1, 1, 8), torch.empty(1, 2, 8)
    least = LEAST_NUMBERS // 256 // 8
    assert picking_is_faster(one, torch.empty(least, 256, 8), 21)
    assert not picking_is_faster(one, torch.empty(least - 1, 256, 8), 21)
    assert not picking_is_faster(one, torch.empty(4096, 64, 8), 21)
    assert not picking_is_faster(several, torch.empty(least, 256, 8), 21)
    assert picking_is_faster(several, torch.empty(least, 2048, 8), 21)
    assert not picking_is_faster(several, torch.empty(least, 2048, 256), 21)


@pytest.mark.parametrize("name", LOCAL)
def test_beside_scores_and_weights_nothing_as_large_is_made(name: AlignName):
    attend, states = Attend(ScaledDot(), cases.align(name, 8)), torch.randn(2, 512, 8)
    memory, scores = Memory(states, states), 2 * 512 * 512 * states.element_size()
    with torch.no_grad():
        assert peak(lambda: attend(states, memory)) < 2.2 * scores
