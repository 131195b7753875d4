"""Interventions obey the laws of masks, for every score, alignment and form of computing."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard import intervene, record
from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.intervene import Ablate, Cut, Force, Uniform
from regard.attention.masks import as_mask, causal, padding
from regard.attention.memory import Memory
from regard.attention.positions import Alibi, BucketedBias, RelativePositions, Rotary
from regard.models.attention import ALIGNS, AlignName, make_attend
from regard.models.gpt2 import GPT2, GPT2Config
from tests.laws import cases

MASKS = {
    "none": lambda: None,
    "padding": lambda: padding(torch.tensor([6, 4]), 6),
    "causal": lambda: causal(3, 6),
    "dense": lambda: as_mask(torch.rand(2, 3, 6, generator=torch.Generator().manual_seed(4)) > 0.3),
}
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}


def sample(score: str, align: AlignName = "softmax", history: str = "none") -> tuple[Attend, Tensor, Tensor, Tensor]:
    """A reader with queries, keys and values."""
    torch.manual_seed(1)
    made, (query, key, value) = cases.score(score)
    past = cases.PASTS[history]() if history != "none" else None
    reader = make_attend(made, cases.align(align, query), past).double().eval()
    queries, keys, values = (torch.randn(2, *size).double() for size in ((3, query), (6, key), (6, value)))
    return reader, queries, keys, values


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("align", ALIGNS)
@pytest.mark.parametrize("score", cases.SCORES)
def test_a_cut_is_a_mask(score: str, align: AlignName, mask: str):
    """On the fused path and on the plain one, and nothing is left of it outside of the block."""
    reader, query, key, value = sample(score, align)
    allowed = torch.ones(2, 3, 6, dtype=torch.bool)
    if MASKS[mask]() is not None:
        allowed = allowed & MASKS[mask]()
    allowed[1, 2, [1, 3]] = False
    expected = reader(query, Memory(key, value, as_mask(allowed)))
    memory = Memory(key, value, MASKS[mask]())
    before = reader(query, memory)
    with intervene(reader, Cut(rows=[1], queries=[2], keys=[1, 3])):
        cut = reader(query, memory)
    torch.testing.assert_close(cut, expected, **CLOSE)
    with intervene(reader, Cut(rows=[1], queries=[2], keys=[1, 3])), record(reader) as maps:
        torch.testing.assert_close(reader(query, memory), expected, **CLOSE)
    assert not maps[""][1, 2, [1, 3]].any()
    with intervene(reader):
        assert torch.equal(reader(query, memory), before)


@pytest.mark.parametrize("align", [name for name in ALIGNS if name not in ("local-p", "monotonic")])
@pytest.mark.parametrize("score", cases.SCORES)
def test_the_last_key_gives_its_value_and_no_key_gives_nothing(score: str, align: AlignName):
    reader, query, key, value = sample(score, align)
    with intervene(reader, Cut(queries=[1], keys=[0, 2, 3, 4, 5]), Cut(queries=[2])):
        context = reader(query, Memory(key, value))
    torch.testing.assert_close(context[:, 1], value[:, 1], **CLOSE)
    assert not context[:, 2].any()


@pytest.mark.parametrize("history", ["none", *cases.PASTS])
def test_weights_are_replaced(history: str):
    reader, query, key, value = sample("additive", history=history)
    memory = Memory(key, value, MASKS["padding"]())
    changes = Uniform(queries=[0]), Ablate(queries=[1], keys=[2]), Force(weights=torch.eye(3, 6), queries=[2])
    with record(reader) as whole:
        reader(query, memory)
    with intervene(reader, *changes), record(reader) as maps:
        context = reader(query, memory)
    with intervene(reader, *changes), record(reader) as stepped:
        prepared, state, contexts = reader.prepare(memory), None, []
        for row in query.unbind(1):
            read = reader.read(row[:, None], prepared, state)
            state = read.state
            contexts.append(read.context)
    torch.testing.assert_close(stepped[""], maps[""], **CLOSE)
    torch.testing.assert_close(torch.cat(contexts, 1), context, **CLOSE)
    torch.testing.assert_close(context, maps[""] @ value, **CLOSE)
    torch.testing.assert_close(maps[""][1, 0], torch.tensor([0.25] * 4 + [0.0] * 2).double())
    ablated = whole[""][:, 1].clone()
    ablated[:, 2] = 0.0
    torch.testing.assert_close(maps[""][:, 1], ablated, **CLOSE) if history == "none" else None
    torch.testing.assert_close(maps[""][:, 2], torch.eye(3, 6).double()[2].expand(2, 6))


@pytest.mark.parametrize("model", [name for name in cases.MODELS if cases.MODELS[name]().decoder.source_attention])
def test_one_pass_equals_steps(model: str):
    """A cut of the source, of a decoder's own words where it reads them, and of a head's weights."""
    torch.manual_seed(2)
    network = cases.MODELS[model]().double().eval()
    given = cases.sentences()
    memory = network.encoder(given.tokens, given.lengths)
    words = torch.randint(4, 11, (len(given.lengths), 4))
    changes = Cut(queries=[1, 2], keys=[0, 1]), Uniform(queries=[3])
    decoder = network.decoder
    with intervene(decoder, *changes):
        whole = decoder.features(words, decoder.start(memory))
    with intervene(decoder, *changes):
        state, steps = decoder.start(memory), []
        for word in words.unbind(1):
            features, state = decoder.advance(word, state)
            steps.append(features)
    torch.testing.assert_close(decoder.output(decoder.join(steps)), decoder.output(whole), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("positions", [None, Rotary(4), Alibi(4), BucketedBias(4)])
def test_a_head_is_cut_alone(positions: RelativePositions | None, groups: int):
    """Whatever its position adds, and with whom it shares its keys."""
    torch.manual_seed(5)
    heads = MultiHead(16, 4, positions=positions, key_value_heads=groups).double()
    heads.output.weight.data = torch.eye(16).double()  # the contexts of the heads, one after another
    states, mask = torch.randn(2, 5, 16).double(), torch.ones(5, 5, dtype=torch.bool).tril()
    expected = heads(states, Memory(states, states, as_mask(mask)))
    mask[3:, 1] = False
    expected[..., 8:12] = heads(states, Memory(states, states, as_mask(mask)))[..., 8:12]
    with intervene(heads, Cut(heads=[2], queries=[3, 4], keys=[1])):
        cut = heads(states, Memory(states, states, causal(5)))
    torch.testing.assert_close(cut, expected, **CLOSE)


def test_a_head_is_ablated_and_gradients_flow():
    torch.manual_seed(3)
    heads, states = MultiHead(6, 3).double(), torch.randn(2, 5, 6).double().requires_grad_()
    with intervene(heads, Ablate(heads=[1])):
        context = heads(states, Memory(states, states))
    weight = heads.output.weight.detach().clone()
    weight[:, 2:4] = 0.0
    expected = MultiHead(6, 3).double()
    expected.load_state_dict(heads.state_dict() | {"output.weight": weight})
    torch.testing.assert_close(context, expected(states, Memory(states, states)), **CLOSE)
    with intervene(heads, Cut(keys=[2])):
        (gradient,) = torch.autograd.grad(heads(states, Memory(states, states))[:, 0].sum(), states)
    assert gradient[:, [0, 1, 3, 4]].all()
    assert not gradient[:, 2].any()


def test_another_text_is_attended_to():
    """With the weights of a text a reader mixes its own values."""
    model = GPT2(11, GPT2Config(width=8, heads=2, layers=2, context=8)).double().eval()
    first, second = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[5, 6, 7, 8]])
    with record(model) as given:
        model(first, model.begin(1))
    with intervene(model, Force(weights=given)), record(model) as maps:
        model(second, model.begin(1))
    for name in given:
        assert torch.equal(maps[name], given[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Cut(keys=[6]), r"keys \[6\] do not exist: the model had 6 keys, 0 to 5"),
        (Cut(queries=[-1]), r"queries \[-1\] do not exist"),
        (Cut(heads=[1]), r"heads \[1\] do not exist: the model had 1 heads"),
        (Ablate(rows=[2, 0]), r"rows \[2\] do not exist"),
        (Force(weights=torch.ones(1, 6)), r"expected at least 3 queries and 6 keys"),
    ],
)
def test_what_does_not_exist_is_refused(change: Cut, message: str):
    reader, query, key, value = sample("dot")
    with pytest.raises(ValueError, match=message), intervene(reader, change):
        reader(query, Memory(key, value))


def test_a_change_of_what_does_not_exist_changes_nothing_where_it_is_allowed():
    reader, query, key, value = sample("dot")
    before = reader(query, Memory(key, value))
    with intervene(reader, Cut(queries=[3]), Cut(keys=[6]), strict=False):
        assert torch.equal(reader(query, Memory(key, value)), before)


def test_a_model_that_does_not_attend_is_refused():
    with pytest.raises(ValueError, match="nothing was changed"), intervene(nn.Linear(2, 2), Cut(keys=[0])):
        pass
