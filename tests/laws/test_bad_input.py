"""Bad input to attention and to models, and the error of each."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend, attend
from regard.attention.heads import MultiHead
from regard.attention.masks import as_mask, causal, padding
from regard.attention.memory import Memory, check_inputs
from regard.attention.record import record
from regard.attention.scores import Dot, Location, ScaledDot
from regard.models.attention import ALIGNS
from regard.work import detect_nonfinite
from tests.laws import cases


def inputs(widths: tuple[int, int, int], queries: int = 3, keys: int = 7) -> list[Tensor]:
    sizes = zip((queries, keys, keys), widths, strict=True)
    return [torch.randn(2, *size, dtype=torch.float64, requires_grad=True) for size in sizes]


def blind(kind: str) -> Tensor:
    """A mask (2, 3, 7) under which the first sequence reads nothing and a query of the second neither."""
    mask = torch.ones(2, 3, 7, dtype=torch.bool)
    mask[0], mask[1, 1] = False, False
    return mask if kind == "dense" else padding(torch.tensor([0, 5]), 7).dense().expand(2, 3, 7)


@pytest.mark.parametrize("kind", ["dense", "padding"])
@pytest.mark.parametrize("name", cases.SCORES)
def test_all_keys_masked(name: str, kind: str, path: str):
    score, widths = cases.score(name)
    query, key, value = inputs(widths)
    mask = blind(kind)
    nothing = ~mask.any(-1)
    module = Attend(score).double()
    context = module(query, Memory(key, value, as_mask(mask)))
    assert not context[nothing].any()
    with record(module) as maps:
        module(query, Memory(key, value, as_mask(mask)))
    assert not maps[""][nothing].any()
    leaves = [query, key, value, *module.parameters()]
    found = torch.autograd.grad(context.square().sum(), leaves, materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in found)
    assert not any(gradient[0].any() for gradient in found[:3])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_garbage_in_padding(garbage: float, dtype: torch.dtype):
    """Every score with every alignment: neither contexts nor gradients see it."""
    mask = padding(torch.tensor([0, 3, 7]), 7)
    hidden = ~mask.dense().mT
    for score, align in product(cases.SCORES, ALIGNS):
        compare, widths = cases.score(score)
        module = Attend(compare, cases.align(align, widths[0])).to(dtype).eval()
        sizes = zip((3, 7, 7), widths, strict=True)
        query, *read = (torch.randn(3, *size).to(dtype) for size in sizes)
        found = []
        for fill in (0.0, garbage):
            leaves = [query.clone(), *(each.masked_fill(hidden, fill) for each in read)]
            first, key, value = (leaf.requires_grad_() for leaf in leaves)
            context = module(first, Memory(key, value, mask))
            total = context.float().sin().sum()
            found.append([context, *torch.autograd.grad(total, (first, key, value), materialize_grads=True)])
        assert all(each.isfinite().all() for each in found[1]), (score, align)
        torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, msg=f"{score}, {align}")


class Overflow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp()


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf])
def test_garbage_in_real_input(garbage: float):
    model = nn.Sequential(nn.Linear(5, 3), nn.Tanh())
    x = torch.randn(2, 5)
    x[1, 2] = garbage
    with (
        detect_nonfinite(model),
        pytest.raises(FloatingPointError, match=r"^the input of Sequential has 1 of 10 numbers as NaN"),
    ):
        model(x)
    model(x)


def test_the_layer_where_it_arose_is_named():
    model = nn.Sequential(nn.Linear(5, 3), nn.Sequential(Overflow(), nn.Tanh()))
    with torch.no_grad():
        model.get_parameter("0.bias").fill_(1000.0)
    with (
        detect_nonfinite(model),
        pytest.raises(FloatingPointError, match=r"^the output of 1\.0 has 6 of 6 numbers .* shape \(2, 3\)"),
    ):
        model(torch.randn(2, 5))


@pytest.mark.parametrize(
    ("name", "parameter", "layer"),
    [
        ("transformer", "encoder.layers.1.feedforward.0.bias", r"encoder\.layers\.1\.feedforward\.0"),
        ("bahdanau", "encoder.embedding.table.weight", r"encoder\.embedding\.table"),
        ("luong-general", "decoder.attend.score.weight", r"decoder\.attend\.score"),
    ],
)
def test_a_broken_weight_of_a_model(name: str, parameter: str, layer: str):
    model = cases.MODELS[name]().double()
    batch = cases.sentences()
    with torch.no_grad():
        model.get_parameter(parameter).fill_(torch.nan)
    with detect_nonfinite(model), pytest.raises(FloatingPointError, match=f"^the output of {layer} has "):
        model(batch.tokens, batch.lengths, batch.target)


@pytest.mark.parametrize("name", cases.MODELS)
def test_sound_models_pass_and_hooks_go(name: str):
    model = cases.MODELS[name]().double().eval()
    batch = cases.sentences()
    with detect_nonfinite(model):
        watched = model(batch.tokens, batch.lengths, batch.target)
    # with hooks, products are computed by definition
    torch.testing.assert_close(watched, model(batch.tokens, batch.lengths, batch.target))
    assert not [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]


def test_a_score_of_minus_infinity_is_no_fault():
    module = Attend(Location(5, 2, ignore_tail=True))
    memory = Memory.of(torch.randn(2, 7, 3))
    with detect_nonfinite(module):
        assert module(torch.randn(2, 3, 5), memory).isfinite().all()


SHAPES = [
    ((2, 3, 5), (1, 7, 5), (2, 7, 5), r"same leading axes; got query \(2, 3, 5\) .*key \(1, 7, 5\)"),
    ((2, 3, 5), (2, 7, 5), (2, 11, 5), r"one value; got .*value \(2, 11, 5\)"),
    ((2, 3, 5), (2, 7, 3), (2, 7, 5), r"one width; got query \(2, 3, 5\) .*key \(2, 7, 3\)"),
    ((3, 5), (2, 7, 5), (2, 7, 5), r"same leading axes; got query \(3, 5\) .*key \(2, 7, 5\)"),
    ((5,), (7, 5), (7, 5), r"a position and a width axis; got query \(5,\)"),
]


@pytest.mark.parametrize(("query", "key", "value", "message"), SHAPES)
def test_shapes_that_do_not_fit(query: tuple, key: tuple, value: tuple, message: str):
    tensors = torch.randn(query), torch.randn(key), torch.randn(value)
    with pytest.raises(ValueError, match=message):
        attend(*tensors, score=Dot())
    with pytest.raises(ValueError, match=message):
        Attend(Dot())(tensors[0], Memory(*tensors[1:]))


@pytest.mark.parametrize("shape", [(3, 7), (2, 5, 7), (2, 3, 5), (1, 2, 3, 7), (2, 7)])
def test_masks_that_do_not_fit(shape: tuple[int, ...]):
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(2, 7, 5)
    mask = torch.ones(shape, dtype=torch.bool)
    if shape == (3, 7):
        attend(query, key, value, score=Dot(), mask=mask)
        return
    with pytest.raises(
        ValueError, match=r"the mask has shape .*; it must broadcast to \(\*batch, query, key\) = \(2, 3, 7\)"
    ):
        attend(query, key, value, score=Dot(), mask=mask)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (3, 1), (2, 1, 7), (1, 1, 1)])
def test_masks_that_broadcast(shape: tuple[int, ...]):
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(2, 7, 5)
    mask = torch.rand(shape) < 0.5
    small, _ = attend(query, key, value, score=Dot(), mask=mask)
    large, _ = attend(query, key, value, score=Dot(), mask=mask.expand(2, 3, 7))
    torch.testing.assert_close(small, large)


@pytest.mark.parametrize(("odd", "message"), [(0, "float64 cpu, key .*float32"), (2, "float32 .*float64")])
def test_dtypes_that_do_not_fit(odd: int, message: str):
    tensors = [torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(2, 7, 5)]
    tensors[odd] = tensors[odd].double()
    with pytest.raises(ValueError, match=f"need one dtype; got .*{message}"):
        attend(*tensors, score=Dot())


def test_devices_that_do_not_fit():
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    with pytest.raises(ValueError, match=r"need one device; got query .* meta, key .* cpu, value .* cpu"):
        attend(query.to("meta"), key, key, score=Dot())
    with pytest.raises(ValueError, match="the mask is on meta, the query on cpu"):
        check_inputs(query, key, key, torch.ones(2, 3, 7, dtype=torch.bool, device="meta"))


def test_heads_need_a_batch_axis():
    with pytest.raises(ValueError, match=r"heads need one batch axis: \(batch, query, width\); got query \(3, 6\)"):
        MultiHead(6, 2)(torch.randn(3, 6), Memory(torch.randn(7, 6), torch.randn(7, 6)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_masks_that_are_not_boolean(dtype: torch.dtype):
    query, key = torch.randn(2, 3, 5), torch.randn(2, 7, 5)
    mask = torch.ones(2, 3, 7, dtype=dtype)
    for use in (
        lambda: attend(query, key, key, score=Dot(), mask=mask),
        lambda: causal(3, 7) & mask,
        lambda: as_mask(mask),
    ):
        with pytest.raises(TypeError, match=f"boolean and True means the key may be attended to; got {dtype}"):
            use()


def test_lengths_that_are_not_whole_numbers():
    with pytest.raises(TypeError, match=r"lengths have dtype torch.bool; give one whole number per sequence"):
        padding(torch.tensor([True, False]), 7)
    with pytest.raises(ValueError, match=r"lengths lie in \[-1, 9\]; they must lie in \[0, 7\]"):
        padding(torch.tensor([-1, 9]), 7)


@pytest.mark.parametrize("name", cases.SCORES)
def test_nothing_and_one(name: str, path: str):
    score, (query_width, key_width, value_width) = cases.score(name)
    for batch, queries, keys in ((0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0), (1, 1, 1), (2, 3, 1)):
        for mask in (None, padding(torch.full((batch,), keys), keys)):
            memory = Memory(torch.randn(batch, keys, key_width), torch.randn(batch, keys, value_width), mask)
            context = Attend(score)(torch.randn(batch, queries, query_width), memory)
            assert context.shape == (batch, queries, value_width)
            if keys < 2:  # one key is all that there is to read; no key, nothing
                torch.testing.assert_close(context, memory.value.sum(1, keepdim=True).expand_as(context))


@pytest.mark.parametrize(("batch", "positions", "targets"), [(0, 3, 2), (2, 0, 2), (0, 0, 2), (1, 1, 1), (1, 0, 1)])
@pytest.mark.parametrize("name", cases.MODELS)
def test_nothing_and_one_in_models(name: str, batch: int, positions: int, targets: int):
    model = cases.MODELS[name]()
    tokens, lengths = torch.full((batch, positions), 5), torch.full((batch,), positions)
    logits = model(tokens, lengths, torch.ones(batch, targets, dtype=torch.long))
    assert logits.shape == (batch, targets, 13)
    assert logits.isfinite().all()
    logits.sum().backward()


def test_a_mask_and_causality_are_one_mask(monkeypatch: pytest.MonkeyPatch):
    states = torch.randn(2, 5, 6)
    heads = MultiHead(6, 2)
    any_mask = torch.rand(2, 5, 5) < 0.7
    lengths = torch.tensor([3, 5])
    combined = [
        causal(5) & any_mask & padding(lengths, 5),
        any_mask & (padding(lengths, 5) & causal(5)),
        as_mask(any_mask & (torch.arange(5) <= torch.arange(5)[:, None]) & (torch.arange(5) < lengths[:, None, None])),
    ]
    results = []
    for path in ("plain", "fused"):
        monkeypatch.setattr(Attend, "fused", path == "fused")
        results += [heads(states, Memory(states, states, as_mask(mask))) for mask in combined]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["MATH", "FLASH_ATTENTION"])
def test_every_backend_agrees(backend: str):
    """Each of a processor's kernels, forced, beside the written-out softmax."""
    kernel = getattr(torch.nn.attention.SDPBackend, backend)
    query, key, value = torch.randn(3, 2, 1, 5, 8).unbind(0)
    memory_mask = causal(5) & padding(torch.tensor([[3], [5]]), 5)
    expected, _ = attend(query, key, value, score=Dot(), mask=memory_mask)
    with torch.nn.attention.sdpa_kernel(kernel):
        masked = Attend(Dot())(query, Memory(key, value, memory_mask))
        named = Attend(Dot())(query, Memory(key, value, causal(5)))
    torch.testing.assert_close(masked, expected, rtol=1e-5, atol=1e-5)
    plain, _ = attend(query, key, value, score=Dot(), mask=causal(5))
    torch.testing.assert_close(named, plain, rtol=1e-5, atol=1e-5)


def test_a_cached_step_is_not_cut_at_the_top_left():
    """The last query of five sees all five keys; a kernel's own causal flag would let it see the first alone."""
    assert not causal(1, 5).is_causal
    assert causal(1, 5).dense().all()
    assert causal(5).is_causal
    assert not (causal(5) & padding(torch.tensor([5]), 5)).is_causal
    assert attend(torch.zeros(1, 1, 3), torch.zeros(1, 5, 3), torch.eye(5)[None], score=ScaledDot(), mask=causal(1, 5))[
        0
    ].tolist() == [[[pytest.approx(0.2)] * 5]]
