"""The laws in half precision, within `regard.testing.laws.TOLERANCES`, and numbers at the edges of every precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, attend
from regard.attention.align import (
    Addressing,
    Align,
    Hard,
    LocalPredictive,
    Monotonic,
    StraightThrough,
    entmax15,
    softmax,
    sparsemax,
)
from regard.attention.align.losses import entropy, guidance
from regard.attention.heads import MultiHead
from regard.attention.masks import Mask, padding, window
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import (
    Additive,
    Content,
    Cosine,
    Distance,
    Dot,
    General,
    InverseDistance,
    Location,
    ScaledDot,
    Score,
)
from regard.models.attention import ALIGNS, AlignName
from regard.nn.layers import mean_over_positions
from regard.testing import check_attention
from regard.testing.laws import TOLERANCES
from tests.laws import cases
from tests.laws.test_alignments import broken

HALVES = (torch.float16, torch.bfloat16)
PRECISIONS = (*HALVES, torch.float32, torch.float64)
MAGNITUDES = (1e-6, 1e-3, 1.0, 1e2, 1e4)
LONG = 4000
names = pytest.mark.parametrize(
    ("score", "align"), [*((name, "softmax") for name in cases.SCORES), *(("additive", name) for name in ALIGNS)]
)
in_halves = pytest.mark.parametrize("dtype", HALVES, ids=str)
in_all = pytest.mark.parametrize("dtype", PRECISIONS, ids=str)


@in_halves
@names
def test_the_laws_in_half_precision(score: str, align: AlignName, dtype: torch.dtype):
    compare, widths = cases.score(score)
    attend = Attend(compare, cases.align(align, widths[0]))
    check_attention(attend, widths=widths, queries=3, keys=7, without=broken(align, score), dtype=dtype)


@in_halves
@pytest.mark.parametrize("score", ["scaled-dot", "cosine", "distance"])
def test_the_laws_in_heads_in_half_precision(score: str, dtype: torch.dtype):
    heads = MultiHead(6, 2, attend=Attend(cases.score(score, heads=2)[0]))
    check_attention(heads, queries=3, keys=7, dtype=dtype)


def inputs(widths: tuple[int, int, int], keys: int, dtype: torch.dtype, magnitude: float = 1.0) -> list[Tensor]:
    """Query, key and value; the values keep their size."""
    query, key, value = (torch.randn(3, size, width) for size, width in zip((3, keys, keys), widths, strict=True))
    return [(magnitude * query).to(dtype), (magnitude * key).to(dtype), value.to(dtype)]


def check_row_sums(weights: Tensor, align: str, dtype: torch.dtype, allowed: Tensor | None = None) -> None:
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    if align not in cases.STOCHASTIC:
        return
    sums = weights.double().sum(-1)
    expected = torch.ones_like(sums) if allowed is None else allowed.double().expand(sums.shape)
    torch.testing.assert_close(sums, expected, rtol=0, atol=TOLERANCES[dtype] if dtype in HALVES else 1e-5)


def check_read(module: Attend, parts: list[Tensor], mask: Mask | None, align: str, allowed: Tensor | None) -> None:
    with record(module) as maps:
        recorded = module(parts[0], Memory(parts[1], parts[2], mask))
    check_row_sums(maps[""], align, parts[0].dtype, allowed)
    assert recorded.dtype == parts[0].dtype
    assert recorded.isfinite().all()
    assert module(parts[0], Memory(parts[1], parts[2], mask)).isfinite().all()


@in_all
@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("score", cases.SCORES)
def test_numbers_of_every_size(score: str, align: AlignName, dtype: torch.dtype):
    """Zero vectors, padding, and vectors from 1e-6 to 1e4, recorded and not."""
    compare, widths = cases.score(score)
    module = Attend(compare, cases.align(align, widths[0])).to(dtype).eval()
    lengths = torch.tensor([0, 1, 6])
    for magnitude in MAGNITUDES:
        query, key, value = inputs(widths, 7, dtype, magnitude)
        query[0], query[1, 1], key[0], key[1, 3] = 0, 0, 0, 0
        check_read(module, [query, key, value], None, align, None)
        check_read(module, [query, key, value], padding(lengths, 7), align, (lengths > 0)[:, None])


@in_all
@pytest.mark.parametrize("align", ALIGNS)
def test_rows_of_4000_keys(align: AlignName, dtype: torch.dtype):
    for score in (name for name in cases.SCORES if name != "location"):  # which refuses so many keys
        compare, widths = cases.score(score)
        if score == "location-tail":
            compare = Location(widths[0], LONG)
        module = Attend(compare, cases.align(align, widths[0])).to(dtype).eval()
        query, key, value = (part[:1] for part in inputs(widths, LONG, dtype))
        weights = module.align(module.score(query, module.score.prepare(key)), query=query).weights
        check_row_sums(weights, align, dtype)
        assert module(query, Memory(key, value)).isfinite().all()


@in_halves
@pytest.mark.parametrize("score", [Dot(), Distance(4.0)], ids=["dot", "distance"])
def test_windows_in_half_precision(score: Score, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    """By blocks of near keys, as by all of them."""
    query, key, value = (torch.randn(1, 400, 8).to(dtype) for _ in range(3))
    mask = window(400, before=3, after=2)
    found = Attend(score)(query, Memory(key, value, mask))
    expected, _ = attend(query, key, value, score=score, mask=mask)
    torch.testing.assert_close(found, expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@in_halves
@pytest.mark.parametrize(
    "align", [Hard(), StraightThrough(), Monotonic()], ids=["hard", "straight-through", "monotonic"]
)
def test_alignments_in_training(align: Align, dtype: torch.dtype):
    """Also where the exponential noise of half precision would be 0."""
    scores = torch.randn(2, 20, 300).to(dtype).requires_grad_()
    found = align.train()(scores)
    check_row_sums(found.weights.detach(), "monotonic", dtype)
    assert (
        torch.autograd.grad(found.weights.square().sum(), scores, allow_unused=True, materialize_grads=True)[0]
        .isfinite()
        .all()
    )
    if found.draw is not None:
        assert found.draw.log_probability.isfinite().all()
        assert found.draw.entropy.isfinite().all()


@in_halves
def test_addressing(dtype: torch.dtype):
    query, scores = torch.randn(2, 5, 9).to(dtype), torch.randn(2, 5, LONG).to(dtype)
    weights = Addressing()(scores, None, query).weights
    assert weights.dtype == dtype
    check_row_sums(weights, "softmax", dtype)


@in_halves
def test_losses_of_weights_that_are_0(dtype: torch.dtype):
    weights = torch.eye(5).expand(2, 5, 5).to(dtype)
    torch.testing.assert_close(entropy(weights), torch.zeros(2, dtype=dtype))
    assert guidance(weights, weights.flip(-1)).isfinite().all()


@in_halves
def test_the_mean_of_a_long_sequence(dtype: torch.dtype):
    states = torch.full((1, LONG, 2), 50.0, dtype=dtype)
    torch.testing.assert_close(
        mean_over_positions(states, padding(torch.tensor([LONG]), LONG), torch.tensor([LONG])), states[:, 0]
    )


@in_halves
def test_distances_are_those_of_float32(dtype: torch.dtype):
    """Far from zero, where the squares of half precision differ by more than the distances."""
    query, key = (5 + 0.5 * torch.randn(2, 7, 64)).to(dtype), (5 + 0.5 * torch.randn(2, 11, 64)).to(dtype)
    _, weights = attend(query, key, key, score=Distance())
    _, expected = attend(query.float(), key.float(), key.float(), score=Distance())
    torch.testing.assert_close(weights.float(), expected)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(attend(query.float(), key.float(), key.float(), score=Distance())[1], expected)


@in_all
def test_a_padded_batch_read_by_angle(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    """A padded key is a zero vector; neither it nor a query that is zero breaks the gradients."""
    for fused in (False, True):
        monkeypatch.setattr(Attend, "fused", fused)
        query, key = torch.randn(1, 3, 4).to(dtype), torch.randn(1, 3, 4).to(dtype)
        query[:, 1] = 0
        leaves = [query.requires_grad_(), key.requires_grad_()]
        context = Attend(Cosine())(query, Memory(key, key, padding(torch.tensor([2]), 3)))
        assert context.isfinite().all()
        of_query, of_key = torch.autograd.grad(context.sum(), leaves)
        assert of_query.isfinite().all()
        assert of_key.isfinite().all()
        assert not of_query[:, 1].any()


@in_all
def test_the_content_score_of_a_blank_tape(dtype: torch.dtype):
    score = Content(6, 5).to(dtype)
    query, rows = torch.zeros(1, 2, 6, dtype=dtype, requires_grad=True), torch.full((1, 7, 5), 1e-6, dtype=dtype)
    rows[0, 3] = 0
    found = score(query, score.prepare(rows))
    [gradient] = torch.autograd.grad(found.sum(), query)
    assert found.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("score", [Cosine(2.0), InverseDistance(0.1)], ids=["cosine", "inverse-distance"])
def test_second_gradients(score: Score):
    """They are those of differences, and finite at zero vectors and at a key that equals its query."""
    query, key = (torch.randn(2, size, 3, dtype=torch.float64, requires_grad=True) for size in (2, 5))
    compare = lambda one, other: score(one, score.prepare(other))  # noqa: E731
    assert torch.autograd.gradcheck(compare, (query, key))
    assert torch.autograd.gradgradcheck(compare, (query, key))
    zero, same = torch.zeros_like(query, requires_grad=True), torch.ones_like(query, requires_grad=True)
    for one in (zero, same):
        found = compare(one, torch.stack([torch.zeros(3), torch.ones(3), torch.arange(3)]).double().expand(2, 3, 3))
        [first] = torch.autograd.grad(found.square().sum(), one, create_graph=True)
        [second] = torch.autograd.grad(first.square().sum(), one)
        assert first.isfinite().all()
        assert second.isfinite().all()


def test_second_gradients_of_products_need_all_weights():
    attend, query = Attend(ScaledDot()), torch.randn(1, 128, 4, requires_grad=True)
    attend.fused = False
    [first] = torch.autograd.grad(attend(query, Memory(query, query)).square().sum(), query, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), query)[0].isfinite().all()


@in_all
@pytest.mark.parametrize("weigh", [softmax, sparsemax, entmax15])
def test_scores_that_are_no_numbers(weigh, dtype: torch.dtype):
    """NaN and plus infinity make their row NaN and no other; minus infinity is a score."""
    scores = torch.randn(5, 7).to(dtype)
    scores[1, 3], scores[2, 0], scores[3] = torch.nan, torch.inf, -torch.inf
    scores[0, 2] = -torch.inf
    found = weigh(scores)
    assert found.isnan().all(-1).tolist() == [False, True, True, True, False]
    assert found.isnan().any(-1).tolist() == [False, True, True, True, False]
    assert found[0, 2] == 0
    allowed = torch.ones(5, 7, dtype=torch.bool)
    allowed[1, 3], allowed[2, 0], allowed[3] = False, False, False
    hidden = weigh(scores, allowed)
    assert hidden.isfinite().all()
    assert not hidden[3].any()
    assert not hidden[~allowed].any()


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_a_predicted_window_over_nothing(garbage: float):
    """Weights are 0 where nothing may be read, whatever the query; a query that reads is not silenced."""
    align, query, scores = LocalPredictive(5, 3, 1), torch.randn(2, 3, 5), torch.randn(2, 3, 7)
    query[0], query[1, 0] = garbage, torch.nan
    weights = align(scores, padding(torch.tensor([0, 5]), 7), query).weights
    assert not weights[0].any()
    assert weights[1, 0].isnan().any()
    assert weights[1, 1:].isfinite().all()


@in_all
@pytest.mark.parametrize(
    "make",
    [Dot, ScaledDot, Cosine, Distance, InverseDistance, lambda: General(0, 0), lambda: Additive(0, 0, 3)],
    ids=["dot", "scaled-dot", "cosine", "distance", "inverse-distance", "general", "additive"],
)
def test_width_0(make: Callable[[], Score], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    """Vectors without numbers are all alike: every key is read equally."""
    score = make().to(dtype)
    query, key, value = (torch.randn(2, *shape).to(dtype) for shape in ((3, 0), (7, 0), (7, 2)))
    for fused in (False, True):
        monkeypatch.setattr(Attend, "fused", fused)
        context = Attend(score)(query, Memory(key, value))
        expected = value.double().mean(1, keepdim=True).expand(2, 3, 2)
        torch.testing.assert_close(context.double(), expected, rtol=0, atol=TOLERANCES[dtype])
    assert Attend(score)(query, Memory(key, value[..., :0])).shape == (2, 3, 0)
