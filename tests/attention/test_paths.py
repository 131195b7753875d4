"""Paths of a lookup: the first that serves it reads it, and none skips code that it does not know."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend, attend
from regard.attention import fast as paths
from regard.attention.align import Align, Hard, LocalMonotonic, LocalPredictive, Softmax, StraightThrough
from regard.attention.align.protocol import Aligned
from regard.attention.fast import FAST, Path, Picked, Windowed, first_that_serves
from regard.attention.heads import MultiHead, self_attention
from regard.attention.lookup import Lookup, Read
from regard.attention.masks import causal, padding, window
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Additive, Dot, ScaledDot, Score, Sides
from regard.models.fused import fuse
from regard.models.transformer import Transformer, TransformerConfig
from tests.laws import cases


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path serves what it can, whatever the sizes."""
    monkeypatch.setattr(paths, "fused_is_faster", lambda query, key, masked: True)
    monkeypatch.setattr("regard.attention.align.local.picking_is_faster", lambda query, key, count: True)


class Zeros(Path):
    """Reads nothing, and only where few keys are."""

    def serves(self, lookup: Lookup) -> bool:
        return lookup.memory.key.shape[-2] < 5

    def read(self, lookup: Lookup) -> Read:
        return Read(torch.zeros(*lookup.query.shape[:-1], lookup.memory.value.shape[-1]))


def drawn(keys: int = 7, width: int = 3) -> tuple[Tensor, Memory]:
    states = torch.randn(2, keys, width)
    return torch.randn(2, 5, width), Memory(states, states)


def test_an_injected_path_reads_what_it_serves():
    reader = Attend(ScaledDot())
    few, many = drawn(3), drawn(7)
    wanted = reader(*few), reader(*many)
    reader.fast = (Zeros(), *FAST)
    assert not reader(*few).any()
    assert wanted[0].any()
    assert torch.equal(reader(*many), wanted[1])
    assert torch.equal(Attend(ScaledDot())(*few), wanted[0])  # of this module alone


@pytest.mark.parametrize("score", [ScaledDot(), Additive(3, 3, 7)], ids=["product", "additive"])
def test_weights_that_a_path_does_not_make_are_recorded_all_the_same(score: Score):
    reader, (query, memory) = Attend(score), drawn(3)
    with record(reader) as wanted:
        reader(query, memory)
    reader.fast = (Zeros(), *FAST)
    with record(reader) as maps:
        reader(query, memory)
    with record(reader, rows=[1, 4]) as some:
        reader(query, memory)
    torch.testing.assert_close(maps[""], wanted[""])
    torch.testing.assert_close(some[""], wanted[""][:, [1, 4]])


def test_fused_layers_do_not_pass_by_an_injected_path():
    model = Transformer(23, 23, TransformerConfig(layers=2, width=20, hidden=13, heads=5)).eval()
    fuse(model)
    tokens, lengths = torch.randint(4, 23, (2, 3)), torch.tensor([3, 2])
    heads = model.get_submodule("encoder.layers.0.self_attention")
    assert isinstance(heads, MultiHead)
    with torch.no_grad():
        before = model.encoder(tokens, lengths).value
        heads.attend.fast = (Zeros(), *FAST)
        after = model.encoder(tokens, lengths).value
        heads.attend.fast = ()
        plain = model.encoder(tokens, lengths).value
    assert not torch.allclose(after[0], before[0], atol=1e-3)
    torch.testing.assert_close(plain[0], before[0])


def path_of(reader: Attend, query: Tensor, memory: Memory) -> type[Path] | None:
    lookup = Lookup(reader.score, reader.align, query, reader.prepare(memory))
    path = first_that_serves(FAST, lookup)
    return None if path is None else type(path)


def test_which_path_serves():
    query, memory = drawn()
    long = torch.randn(2, 1024, 3)
    near = Memory(long, long, window(1024, before=3, after=2))
    assert path_of(Attend(Dot()), query, memory) is paths.Fused
    assert path_of(Attend(Dot()), long, near) is Windowed
    assert path_of(Attend(Dot()), query, Memory(memory.key, memory.value, causal(5, 7))) is paths.Fused
    assert path_of(Attend(Additive(3, 3, 7)), query, memory) is None
    assert path_of(Attend(Dot(), LocalMonotonic(1)), query, memory) is Picked


@pytest.mark.parametrize("align", [Hard(), Hard(0.5), StraightThrough(0.3)], ids=["hard", "shared", "straight-through"])
@pytest.mark.parametrize("masked", ["none", "padding", "causal", "nothing"])
def test_hard_alignment_reads_one_value_at_inference(align: Align, masked: str):
    """The same numbers as all values by weights of 0 and 1, also where a row may read nothing."""
    query, memory = drawn(5)
    masks = {"none": None, "padding": padding(torch.tensor([2, 5]), 5), "causal": causal(5, 5)}
    memory = replace(memory, mask=masks.get(masked, padding(torch.tensor([0, 3]), 5)))
    reader = Attend(ScaledDot(), align).eval()
    assert path_of(reader, query, memory) is None  # gradients may be wanted
    with torch.no_grad():
        assert path_of(reader, query, memory) is paths.OneValue
        found = reader(query, memory)
        reader.fast = ()
        assert torch.equal(found, reader(query, memory))
        reader.fast = FAST
        assert path_of(reader.train(), query, memory) is None


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
    def forward(self, *given, **named) -> Aligned:
        aligned = super().forward(*given, **named)
        return aligned._replace(weights=aligned.weights**2)


class MyLocal(LocalMonotonic):
    def forward(self, *given, **named) -> Aligned:
        aligned = super().forward(*given, **named)
        return aligned._replace(weights=aligned.weights * 2)


class MyCentre(LocalPredictive):
    def centre(self, query: Tensor, extent: Tensor) -> Tensor:
        return super().centre(query, extent) * 0 + 2


OWN: dict[str, Callable[[], Attend]] = {
    "product": lambda: Attend(MyDot()),
    "additive": lambda: Attend(MyAdditive(3, 3, 7)),
    "sides": lambda: Attend(MySides()),
    "softmax": lambda: Attend(Dot(), MySoftmax()),
    "local": lambda: Attend(Dot(), MyLocal(1)),
    "local, with an additive score": lambda: Attend(MyAdditive(3, 3, 7), LocalMonotonic(1)),
    "centre": lambda: Attend(Dot(), MyCentre(3, 5, 1)),
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("masked", [False, True])
def test_code_of_a_subclass_is_honoured_on_every_path(name: str, masked: bool):
    """In training and evaluation, with weights and without, in heads, and recorded."""
    reader, (query, memory) = OWN[name](), drawn(70)
    if masked:
        query, memory = torch.randn(2, 70, 3), Memory(memory.key, memory.value, window(70, before=3, after=2))
    prepared, align = reader.prepare(memory), reader.align
    scores = reader.score(query, prepared.key)
    wanted = align(scores, memory.mask, query).weights
    for training in (True, False):
        reader.train(training)
        torch.testing.assert_close(reader(query, memory), wanted @ memory.value)
        read = reader.read(query, prepared, weights=True)
        assert read.weights is not None
        torch.testing.assert_close(read.weights, wanted)
        with record(reader, rows=[3, 0]) as some:
            reader(query, memory)
        with record(reader) as whole:
            reader(query, memory)
        torch.testing.assert_close(whole[""], wanted)
        torch.testing.assert_close(some[""], wanted[:, [3, 0]])


@pytest.mark.parametrize("name", ["product", "softmax", "additive"])
def test_code_of_a_subclass_in_fused_layers(name: str):
    """The kernel for whole layers takes none of them."""
    model = Transformer(23, 23, TransformerConfig(layers=1, width=6, hidden=13, heads=2)).eval()
    tokens, lengths = torch.randint(4, 23, (2, 3)), torch.tensor([3, 2])
    heads = model.get_submodule("encoder.layers.0.self_attention")
    assert isinstance(heads, MultiHead)
    heads.attend = OWN[name]().eval()
    with torch.no_grad():
        wanted = model.encoder(tokens, lengths).value
        fuse(model)
        torch.testing.assert_close(model.encoder(tokens, lengths).value, wanted)


@pytest.mark.parametrize("score", [ScaledDot(), Additive(3, 3, 7)], ids=["product", "additive"])
def test_a_hook_is_called_on_every_path(score: Score):
    reader, (query, memory) = Attend(score), drawn()
    before = reader(query, memory)

    def double(module: nn.Module, given: tuple[Tensor, ...], scores: Tensor) -> Tensor:
        return scores + scores

    score.register_forward_hook(double)
    scores = reader.score(query, score.prepare(memory.key))
    torch.testing.assert_close(reader(query, memory), scores.softmax(-1) @ memory.value)
    assert not torch.allclose(reader(query, memory), before, atol=1e-3)


@pytest.mark.parametrize("name", cases.SCORES)
def test_sides_give_the_score(name: str):
    """The pair rule of the sides is the score, and the operation is the plain path."""
    score, (query_width, key_width, value_width) = cases.score(name)
    query, key = torch.randn(2, 3, query_width), torch.randn(2, 7, key_width)
    prepared = score.prepare(key)
    sides = score.sides(query, prepared)
    if sides is not None:
        torch.testing.assert_close(sides.scores(), score(query, prepared))
    value = torch.randn(2, 7, value_width)
    context, weights = attend(query, key, value, score=score)
    reader = Attend(score)
    reader.fast = ()
    read = reader.read(query, reader.prepare(Memory(key, value)), weights=True)
    torch.testing.assert_close((read.context, read.weights), (context, weights))


def test_self_attention_in_heads_is_the_same_on_every_path():
    heads, states = MultiHead(6, 2), torch.randn(2, 127, 6)
    mask = window(127, before=3, after=2)
    fast = self_attention(heads, states, mask)
    heads.attend.fast = ()
    torch.testing.assert_close(self_attention(heads, states, mask), fast)
