"""Fused forms: each gives the context of the definition, and none skips code that it does not know."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend, attend
from regard.attention.align import Aligned, AlignInput, Hard, LocalMonotonic, Softmax
from regard.attention.attend import (
    Lookup,
    can_read_products,
    choose_fused_form,
    read_one_key,
    read_products,
    read_windows,
)
from regard.attention.heads import MultiHead, self_attention
from regard.attention.masks import Dense, Mask, causal, padding, window
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive, Distance, Dot, ScaledDot, Score, Sides
from regard.experiments.cost import peak_bytes
from regard.kernels.windows import attend_windows
from tests.laws import cases


def sample(keys: int = 7, width: int = 3) -> tuple[Tensor, Memory]:
    states = torch.randn(2, keys, width)
    return torch.randn(2, 5, width), Memory(states, states)


def form_of(reader: Attend, query: Tensor, memory: Memory, dropout: float = 0.0) -> Callable[..., Tensor] | None:
    lookup = Lookup(reader.score, reader.align, query, reader.prepare(memory), dropout=dropout)
    return choose_fused_form(lookup)


def test_which_form_serves():
    query, memory = sample()
    long = torch.randn(2, 1024, 3)
    assert form_of(Attend(Dot()), query, memory) is read_products
    assert form_of(Attend(Dot()), query, memory, dropout=0.1) is None
    assert form_of(Attend(Dot()), long, Memory(long, long, window(1024, before=3, after=2))) is read_windows
    assert form_of(Attend(Dot()), query, Memory(memory.key, memory.value, causal(5, 7))) is read_products
    assert form_of(Attend(Additive(3, 3, 7)), query, memory) is None
    assert form_of(Attend(Dot(), LocalMonotonic(1)), query, memory) is None
    assert form_of(Attend(Dot(), Hard()), query, memory) is None
    assert form_of(Attend(Dot(), Hard()).eval(), query, memory) is read_one_key


class MyDot(ScaledDot):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key).square()


class MyAdditive(Additive):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key) * 3


class MySides(ScaledDot):
    def sides(self, query: Tensor, key: Tensor) -> Sides:
        return Sides(query + query, key)


class MySoftmax(Softmax):
    def forward(self, inputs: AlignInput) -> Aligned:
        aligned = super().forward(inputs)
        return aligned._replace(weights=aligned.weights**2)


OWN: dict[str, Callable[[], Attend]] = {
    "product": lambda: Attend(MyDot()),
    "additive": lambda: Attend(MyAdditive(3, 3, 7)),
    "sides": lambda: Attend(MySides()),
    "softmax": lambda: Attend(Dot(), MySoftmax()),
    "local, with an additive score": lambda: Attend(MyAdditive(3, 3, 7), LocalMonotonic(1)),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("masked", [False, True])
def test_code_of_a_subclass_runs(name: str, masked: bool):
    """In training and evaluation, with weights and without, and recorded."""
    reader, (query, memory) = OWN[name](), sample(70)
    if masked:
        mask = window(70, before=3, after=2)
        query, memory = torch.randn(2, 70, 3), Memory(memory.key, memory.value, mask)
    prepared, align = reader.prepare(memory), reader.align
    expected = align(reader.score(query, prepared.key), memory.mask, query).weights
    for training in (True, False):
        reader.train(training)
        torch.testing.assert_close(reader(query, memory), expected @ memory.value)
        read = reader.read(query, prepared, weights=True)
        torch.testing.assert_close(read.weights, expected)
        with record(reader) as maps:
            reader(query, memory)
        torch.testing.assert_close(maps[""], expected)
        with record(reader, rows=[3, 0]) as selected:
            reader(query, memory)
        torch.testing.assert_close(selected[""], expected[:, [3, 0]])


@pytest.mark.parametrize("score", [ScaledDot(), Additive(3, 3, 7)], ids=["product", "additive"])
def test_a_hook_is_called(score: Score):
    reader, (query, memory) = Attend(score), sample()
    before = reader(query, memory)

    def double(module: nn.Module, given: tuple[Tensor, ...], scores: Tensor) -> Tensor:
        return scores + scores

    score.register_forward_hook(double)
    scores = reader.score(query, score.prepare(memory.key))
    torch.testing.assert_close(reader(query, memory), scores.softmax(-1) @ memory.value)
    assert not torch.allclose(reader(query, memory), before, atol=1e-3)


@pytest.mark.parametrize("name", cases.SCORES)
def test_sides_give_the_score(name: str):
    score, (query_width, key_width, value_width) = cases.score(name)
    query, key = torch.randn(2, 3, query_width), torch.randn(2, 7, key_width)
    prepared = score.prepare(key)
    sides = score.sides(query, prepared)
    if sides is not None:
        torch.testing.assert_close(sides.scores(), score(query, prepared))
    value = torch.randn(2, 7, value_width)
    context, weights = attend(query, key, value, score=score)
    read = Attend(score).read(query, Attend(score).prepare(Memory(key, value)), weights=True)
    torch.testing.assert_close((read.context, read.weights), (context, weights))


def inputs(queries: int, keys: int, batch: tuple[int, ...] = (2,)) -> list[Tensor]:
    """Query, key and value, the values of another width than the keys."""
    shapes = (*batch, queries, 5), (*batch, keys, 5), (*batch, keys, 7)
    return [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]


HIDDEN = torch.rand(2, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.7
HIDDEN[0], HIDDEN[1, 3] = False, False
MASKS: dict[str, tuple[int, int, Mask | None]] = {
    "none": (3, 7, None),
    "one key": (7, 1, None),
    "one query": (1, 11, None),
    "causal": (7, 7, causal(7)),
    "a step": (1, 7, causal(1, 7)),
    "padding": (5, 7, padding(torch.tensor([0, 7]), 7)),
    "rows and queries that may read nothing": (5, 7, Dense(HIDDEN)),
    "keys for all": (5, 7, Dense(HIDDEN[1:2, 2:3])),
    "queries": (5, 7, Dense(HIDDEN[1, :, :1])),
    "all hidden": (5, 7, Dense(torch.zeros(5, 7, dtype=torch.bool))),
    "windows": (130, 130, window(130, before=3, after=2)),
    "windows and padding": (130, 130, window(130, before=3, after=2) & padding(torch.tensor([130, 70]), 130)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score", [ScaledDot(), Distance(2.0)], ids=["scaled dot", "distance"])
def test_values_and_gradients_are_those_of_the_definition(name: str, score: Score):
    queries, keys, mask = MASKS[name]
    tensors = inputs(queries, keys)
    expected, _ = attend(*tensors, score=score, mask=mask)
    context = Attend(score)(tensors[0], Memory(tensors[1], tensors[2], mask))
    torch.testing.assert_close(context, expected, rtol=1e-12, atol=1e-12)
    both = [torch.autograd.grad(result.square().sum(), tensors) for result in (context, expected)]
    torch.testing.assert_close(*both, rtol=1e-11, atol=1e-12)
    assert all(gradient.isfinite().all() for gradient in both[0])


@pytest.mark.parametrize("name", MASKS)
def test_hard_attention_fetches_the_value_that_its_weights_name(name: str):
    """Zeros where a query may read nothing, gradients of the values included."""
    queries, keys, mask = MASKS[name]
    query, key, value = inputs(queries, keys)
    reader = Attend(Additive(5, 5, 3), Hard()).double().eval()
    memory = reader.prepare(Memory(key, value, mask))
    contexts = [reader.read(query, memory, weights=weights).context for weights in (True, False)]
    torch.testing.assert_close(*contexts, rtol=0, atol=0)
    gradients = [torch.autograd.grad(each.square().sum(), value, retain_graph=True)[0] for each in contexts]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_no_weights_are_stored_whatever_the_axes_and_widths(batch: tuple[int, ...], masked: bool):
    query, key, value = inputs(300, 310, batch)
    mask = padding(torch.full(batch, 290), 310) if masked else None
    reader, memory = Attend(Dot()), Memory(key, value, mask, zero_masked=False)
    gradient = torch.ones(*batch, 300, 7, dtype=torch.float64)
    size = 300 * 310 * 8 * math.prod(batch)
    assert peak_bytes(lambda: torch.autograd.grad(reader(query, memory), (query, key, value), gradient)) < size / 2


@pytest.mark.parametrize("batch", [(2, 3), ()])
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
def test_blocks_are_the_window(batch: tuple, queries: int, keys: int, before: int, after: int, first: int):
    tensors = inputs(queries, keys, batch)
    allowed = padding(torch.randint(1, keys, (*batch[:1], *[1] * len(batch[1:]))), keys).dense()
    mask = window(queries, keys, before=before, after=after, first=first).dense() & allowed
    expected, _ = attend(*tensors, score=Dot(), mask=mask.expand(*batch, queries, keys))
    context = attend_windows(tensors[0], tensors[1], tensors[2], (before, after, first), allowed)
    torch.testing.assert_close(context, expected, rtol=1e-12, atol=1e-12)
    both = [torch.autograd.grad(result.square().sum(), tensors) for result in (context, expected)]
    torch.testing.assert_close(*both, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("mask", "near"),
    [
        (window(3, 7, before=2, after=0), (2, 0, 4)),
        (window(5, before=2), None),
        (causal(5), None),
        (padding(torch.tensor([3, 5]), 5) & window(5, before=2, after=1), (2, 1, 0)),
        (window(5, before=2, after=1) & causal(5), None),
        (window(5, before=2, after=1, sinks=1), None),
    ],
)
def test_masks_that_are_windows(mask: Mask, near: tuple[int, int, int] | None):
    assert (None if mask.local_window is None else mask.local_window[:3]) == near


@pytest.mark.parametrize("padded", [False, True])
def test_a_long_window_stores_nothing_as_large_as_the_scores(padded: bool):
    states = torch.randn(2, 2048, 6, requires_grad=True)
    mask = window(2048, before=8, after=8)
    mask = mask & padding(torch.tensor([2048, 999]), 2048) if padded else mask
    reader, memory = Attend(Dot()), Memory(states, states, mask, zero_masked=False)
    gradient = torch.ones_like(states)
    scores = 2 * 2048 * 2048 * 4
    assert peak_bytes(lambda: torch.autograd.grad(reader(states, memory), states, gradient)) < scores / 3


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_heads_reach_the_kernel_in_four_frames_of_two_files(groups: int, monkeypatch: pytest.MonkeyPatch):
    import traceback

    frames: list[traceback.FrameSummary] = []
    genuine = torch.nn.functional.scaled_dot_product_attention

    def spy(*sides: Any, **options: Any) -> Tensor:
        frames.extend(frame for frame in traceback.extract_stack() if "/src/regard/" in frame.filename)
        return genuine(*sides, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    heads, states = MultiHead(8, 4, key_value_heads=groups), torch.randn(2, 3, 8)
    self_attention(heads, states, causal(3))
    names = [frame.name for frame in frames]
    assert names == ["self_attention", "forward", "read_queries", "read", "read_products"]
    assert len({frame.filename for frame in frames}) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_in_half_precision_train_without_the_fused_form(dtype: torch.dtype):
    """PyTorch's gradients of it are several times slower there."""
    states = torch.randn(2, 3, 4, dtype=dtype, requires_grad=True)
    lookup = Lookup(Dot(), Softmax(), states, Memory(states, states))
    assert can_read_products(lookup) == (dtype == torch.float32)
    assert can_read_products(lookup._replace(query=states.detach()))
