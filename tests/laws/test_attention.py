"""Every score, alone and in heads, on the plain path and on the fused one, obeys the laws of attention."""

import sys

import pytest
import torch

from regard.attention import Attend
from regard.attention import attend as attend_plainly
from regard.attention.heads import MultiHead
from regard.attention.history import Coverage, History
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive
from regard.kernels.compiler import compiler
from regard.kernels.cpu import score_additive
from regard.models.attention import make_attend
from regard.testing import check_attention
from tests.laws import cases

PLACES, ALONE = "the_order_of_keys_changes_nothing", "a_key_hidden_from_one_query_is_inert_for_it"


@pytest.mark.parametrize("name", cases.SCORES)
def test_one_head(name: str, path: str):
    score, widths = cases.score(name)
    check_attention(Attend(score), widths=widths, keys=cases.MAX_SOURCE, without=[PLACES] if "location" in name else [])


@pytest.mark.parametrize("name", cases.SCORES)
def test_heads(name: str, path: str):
    score, _ = cases.score(name, heads=3)
    heads = MultiHead(7, 3, attend=Attend(score), head_width=5, memory_width=11)
    check_attention(heads, keys=cases.MAX_SOURCE, without=[PLACES] if "location" in name else [])


@pytest.mark.parametrize(
    "heads",
    [
        MultiHead(6, 2),
        MultiHead(6, 1),
        MultiHead(6, 6, key_value_heads=2),
        MultiHead(6, 3, key_value_heads=1, head_width=5),
        MultiHead(6, 2, shared_key_value=True, memory_width=5),
    ],
    ids=["two", "one", "grouped", "one-key-value-head", "shared"],
)
def test_kinds_of_heads(heads: MultiHead, path: str):
    check_attention(heads, keys=cases.MAX_SOURCE)


@pytest.mark.parametrize("name", sorted({*cases.PRODUCTS, "additive"}))
def test_float32(name: str):
    """With sizes at which the fused kernel is chosen without being forced."""
    score, widths = cases.score(name)
    check_attention(Attend(score), widths=widths, dtype=torch.float32)


@pytest.mark.parametrize("history", [None, Coverage(3)], ids=["alone", "coverage"])
def test_fused_additive_scores_in_heads(history: History | None):
    heads = MultiHead(6, 2, attend=make_attend(Additive(3, 3, 3, heads=2), None, history), memory_width=11)
    without, queries = ([], 127) if history is None else ([ALONE], 7)
    check_attention(heads, queries=queries, keys=cases.MAX_SOURCE, dtype=torch.float32, without=without)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_additive_scores_run_on_their_kernel_also_while_somebody_looks(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
):
    calls = []
    module = sys.modules["regard.attention.attend"]
    genuine = score_additive
    monkeypatch.setattr(module, "score_additive", lambda *a: calls.append(a) or genuine(*a))
    attend, query = Attend(Additive(5, 7, 3)).to(dtype), torch.randn(2, 3, 5, dtype=dtype)
    memory = Memory(torch.randn(2, 11, 7, dtype=dtype), torch.randn(2, 11, 2, dtype=dtype))
    unseen = attend(query, memory)
    with record(attend) as maps:
        assert torch.equal(attend(query, memory), unseen)
    torch.testing.assert_close(maps[""] @ memory.value, unseen)
    fits = dtype == torch.float32 and compiler() is not None
    assert len(calls) == (2 if fits else 0)
    plain, weights = attend_plainly(query, memory.key, memory.value, score=attend.score)
    torch.testing.assert_close((unseen, maps[""]), (plain, weights))


@pytest.mark.parametrize("name", cases.SCORES)
def test_fused_kernel_serves_products_while_nobody_looks(name: str, monkeypatch: pytest.MonkeyPatch):
    calls = []
    genuine = torch.nn.functional.scaled_dot_product_attention
    spy = lambda *a, **k: calls.append(a) or genuine(*a, **k)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    score, (query, key, value) = cases.score(name)
    attend = Attend(score)
    memory = Memory(torch.randn(2, 7, key), torch.randn(2, 7, value))
    attend(torch.randn(2, 3, query), memory)
    assert len(calls) == (name in cases.PRODUCTS)
    with record(attend):
        attend(torch.randn(2, 3, query), memory)
    assert len(calls) == (name in cases.PRODUCTS)


def test_a_shared_projection_is_one_projection():
    heads = MultiHead(6, 2, shared_key_value=True)
    assert heads.value is heads.key
    states = torch.randn(2, 5, 6)
    memory = heads.prepare(Memory(states, states))
    assert memory.value is memory.key


def test_heads_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="width 7 is not divisible by 2 heads"):
        MultiHead(7, 2)
    with pytest.raises(ValueError, match="6 heads cannot share 4"):
        MultiHead(6, 6, key_value_heads=4)
