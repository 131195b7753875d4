"""What is kept in place of whole weights is what one would make of them, on every path, and needs no more memory."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention import Attend
from regard.attention.masks import as_mask, causal, padding
from regard.attention.memory import Memory
from regard.attention.record import Maps, record
from regard.attention.scores import Additive, ScaledDot
from regard.experiments.cost import peak_bytes
from regard.maps.reductions import Entropy, Greatest, KeepAll, Reduction, Totals
from regard.models.attention import ALIGNS, AlignName
from tests.laws import cases

REDUCTIONS = [Greatest(2), Entropy(), Totals()]
ids = pytest.mark.parametrize("reduction", REDUCTIONS, ids=["greatest", "entropy", "totals"])


@pytest.fixture
def few_together(monkeypatch: pytest.MonkeyPatch):
    """Three queries at a time, so that there are several parts, the last of them smaller."""
    monkeypatch.setattr("regard.maps.reductions.QUERIES_PER_GROUP", 3)


def by_hand(weights: Tensor, reduction: Reduction) -> np.ndarray:
    """Of whole weights, row by row."""
    rows = weights.double().numpy()
    if isinstance(reduction, Greatest):
        return -np.sort(-rows, -1)[..., : reduction.count]
    if isinstance(reduction, Totals):
        return np.apply_along_axis(math.fsum, -2, rows)[..., None, :]

    def bits(row: np.ndarray) -> float:
        total = math.fsum(row)
        return -math.fsum(each / total * math.log2(each / total) for each in row if each) if total else math.nan

    return np.apply_along_axis(bits, -1, rows)[..., None]


def same(maps: Maps, whole: Tensor, reduction: Reduction) -> None:
    found, expected = maps[""], by_hand(whole, reduction)
    assert found.dtype == whole.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
    if isinstance(reduction, Greatest):
        torch.testing.assert_close(whole.gather(-1, maps.key_indices("")), found)


def inputs(widths: tuple[int, int, int]) -> tuple[Tensor, Memory]:
    """Seven queries and eleven keys, some hidden; the last query reads nothing."""
    query, key, value = (torch.randn(2, n, width).double() for n, width in zip((7, 11, 11), widths, strict=True))
    allowed = (torch.arange(11) < torch.tensor([11, 5])[:, None, None]) & (torch.arange(7) < 6)[:, None]
    return query, Memory(key, value, as_mask(allowed))


@ids
@pytest.mark.parametrize("name", cases.SCORES)
@pytest.mark.usefixtures("few_together", "path")
def test_of_every_score(name: str, reduction: Reduction):
    score, widths = cases.score(name)
    attend, (query, memory) = Attend(score).double(), inputs(widths)
    with record(attend) as whole, torch.no_grad():
        wanted = attend(query, memory)
    with record(attend, reduce=reduction) as maps, torch.no_grad():
        torch.testing.assert_close(attend(query, memory), wanted, rtol=1e-12, atol=1e-12)
    same(maps, whole[""], reduction)


@ids
@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.usefixtures("few_together")
def test_of_every_alignment(align: AlignName, reduction: Reduction):
    attend = Attend(Additive(5, 3, 7), cases.align(align, 5)).double().eval()
    query, memory = inputs((5, 3, 2))
    with record(attend) as whole, torch.no_grad():
        attend(query, memory)
    with record(attend, reduce=reduction) as maps, torch.no_grad():
        attend(query, memory)
    same(maps, whole[""], reduction)


@ids
@pytest.mark.usefixtures("few_together")
def test_of_chosen_heads_and_rows(reduction: Reduction):
    attend, states = Attend(ScaledDot()), torch.randn(2, 3, 13, 5).double()
    memory, rows = Memory(states, states, causal(13)), [2, 3, 5, 11, 12]
    with record(attend) as whole, torch.no_grad():
        attend(states, memory)
    with record(attend, heads=[2, 0], rows=rows, reduce=reduction) as maps, torch.no_grad():
        attend(states, memory)
    same(maps, whole[""][:, [2, 0]][..., rows, :], reduction)


@ids
@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_of_the_steps_of_a_decode(name: str, reduction: Reduction):
    """Keys come with every step of self-attention."""
    model, batch = cases.MODELS[name]().double().eval(), cases.sentences()
    memory = model.encoder(batch.tokens, batch.lengths)
    with record(model.decoder) as whole, torch.no_grad():
        model.decoder.features(batch.target, model.decoder.start(memory))
    with record(model.decoder, reduce=reduction) as maps, torch.no_grad():
        state = model.decoder.start(memory)
        for tokens in batch.target.unbind(1):
            _, state = model.decoder.step(tokens, state)
    for each in whole:
        np.testing.assert_allclose(maps[each].numpy(), by_hand(whole[each], reduction), rtol=1e-12, atol=1e-12)


def test_sums_of_half_precision_lose_nothing():
    """1,024 queries that read two keys alike: in bfloat16 a sum of halves would stop growing at 128."""
    attend, query = Attend(ScaledDot()), torch.randn(1, 1024, 5, dtype=torch.bfloat16)
    key = torch.zeros(1, 2, 5, dtype=torch.bfloat16)
    for reduction, expected in ((Totals(), [[512.0, 512.0]]), (Entropy(), [[1.0]] * 1024)):
        with record(attend, reduce=reduction) as maps:
            attend(query, Memory(key, key))
        assert maps[""].dtype == torch.float32
        assert maps[""].tolist() == [expected]


@ids
def test_what_is_kept_has_gradients(reduction: Reduction):
    """Those of the same made of whole weights, in rows that read something."""
    attend, (query, memory) = Attend(ScaledDot()).double(), inputs((5, 5, 5))
    query.requires_grad_()
    gradients = []
    for kept_at_once in (reduction, KeepAll()):
        with record(attend, reduce=kept_at_once, differentiable=True) as maps:
            attend(query, memory)
        kept = maps[""] if kept_at_once == reduction else reduction.of(maps[""]).values
        gradients += torch.autograd.grad(kept.nan_to_num().square().sum(), query)
    assert gradients[0].isfinite().all()
    assert gradients[0][:, :6].abs().amin() > 0
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


@ids
@pytest.mark.parametrize("masked", ["none", "causal", "padding"])
def test_nothing_as_large_as_the_scores_is_made(reduction: Reduction, masked: str):
    """All tensors alive at once, of a read of 2,048 keys by as many queries, are less than one of all its scores."""
    size = 2048
    mask = {"none": None, "causal": causal(size), "padding": padding(torch.tensor([1500]), size)}[masked]
    attend, query = Attend(ScaledDot()), torch.randn(1, size, 8)
    memory, scores = Memory(query, query, mask), size * size * query.element_size()
    with record(attend, reduce=reduction) as maps:
        assert peak_bytes(lambda: attend(query, memory)) < scores * 3 / 4
    assert maps[""].numel() <= 2 * size
    with record(attend):
        assert peak_bytes(lambda: attend(query, memory)) > scores
