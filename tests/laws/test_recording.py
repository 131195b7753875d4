"""Recording: chosen modules, heads and rows, steps joined; nothing kept afterwards, nothing paid when off."""

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

from regard.attention import Attend
from regard.attention.heads import MultiHead
from regard.attention.masks import causal, padding
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Cosine, ScaledDot, Score
from regard.experiments.cost import peak_bytes
from regard.maps.reductions import Greatest, KeepAll, Reduction, Totals
from tests.laws import cases


def transformer() -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    model = cases.MODELS["transformer"]().double().eval()
    batch = cases.sentences()
    return model, (batch.tokens, batch.lengths, batch.target)


EVERY = [
    "encoder.layers.0.self_attention",
    "encoder.layers.1.self_attention",
    "decoder.layers.0.self_attention",
    "decoder.layers.0.cross_attention",
    "decoder.layers.1.self_attention",
    "decoder.layers.1.cross_attention",
]


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("*", EVERY),
        ("encoder.*", EVERY[:2]),
        ("*.cross_attention", [EVERY[3], EVERY[5]]),
        ("decoder.layers.?.self_attention", [EVERY[2], EVERY[4]]),
        (["encoder.layers.0.*", "decoder.layers.1.cross_attention"], [EVERY[0], EVERY[5]]),
    ],
)
def test_only_the_chosen_modules(only: str | list[str], names: list[str]):
    model, inputs = transformer()
    with record(model, only) as maps:
        model(*inputs)
    shapes = {"encoder": (4, 3, 7, 7), "decoder": (4, 3, 5, 5), "cross": (4, 3, 5, 7)}
    assert {name: maps[name].shape for name in maps} == {
        name: shapes["cross" if "cross" in name else name[:7]] for name in names
    }


def test_a_pattern_that_fits_nothing_is_refused():
    with (
        pytest.raises(ValueError, match=r"no module is called 'decodr.\*'; the model has \['encoder', 'decoder'\]"),
        record(transformer()[0], "decodr.*"),
    ):
        pass


@pytest.mark.parametrize("name", ["bahdanau", "luong-general", "one-pass", "transformer"])
@pytest.mark.parametrize("rows", [None, [0, 3]])
def test_steps_of_a_decode_join_to_the_map_of_one_pass(name: str, rows: list[int] | None):
    model = cases.MODELS[name]().double().eval()
    batch = cases.sentences()
    memory = model.encoder(batch.tokens, batch.lengths)
    with record(model.decoder, rows=rows) as forced:
        model.decoder.features(batch.target, model.decoder.start(memory))
    with record(model.decoder, rows=rows) as stepped:
        state = model.decoder.start(memory)
        for tokens in batch.target.unbind(1):
            _, state = model.decoder.step(tokens, state)
    assert sorted(forced) == sorted(stepped) != []
    for each in forced:
        assert forced[each].shape[-2] == (5 if rows is None else 2)
        torch.testing.assert_close(stepped[each], forced[each], rtol=1e-12, atol=1e-12)


def test_the_greatest_weights_of_each_step():
    model, batch = cases.MODELS["transformer"]().double().eval(), cases.sentences()
    names = [EVERY[2], EVERY[3]]
    with record(model, names) as whole, torch.no_grad():
        model(batch.tokens, batch.lengths, batch.target)
    with record(model, names, reduce=Greatest(3), rows=[1, 2, 4]) as maps, torch.no_grad():
        state = model.decoder.start(model.encoder(batch.tokens, batch.lengths))
        for token in batch.target.unbind(1):
            _, state = model.decoder.step(token, state)
    for name in names:
        weights, places = maps[name], maps.key_indices(name)
        expected = whole[name][..., [1, 2, 4], :].topk(3, -1).values
        torch.testing.assert_close(weights, expected)
        assert (places[..., 0, 2] == (-1 if name == EVERY[2] else places[..., 0, 2])).all()  # a step that knew two keys
        found = whole[name][..., [1, 2, 4], :].gather(-1, places.clamp(min=0)) * (places >= 0)
        torch.testing.assert_close(found, weights)
    with pytest.raises(ValueError, match="the number of weights per query is 0; expected 1 or more"):
        Greatest(0)


@pytest.mark.parametrize("reduction", [KeepAll(), Totals()])
def test_a_batch_that_shrinks_between_steps_says_what_to_do(reduction: Reduction):
    model, inputs = transformer()
    with record(model, reduce=reduction) as maps:
        model(*inputs)
        model(*(each[:2] for each in inputs))
    with pytest.raises(ValueError, match="changed between steps; record a pass over the finished"):
        maps[EVERY[0]]


def test_records_do_not_mix():
    """The inner block listens alone; the outer goes on after it; outside nobody listens."""
    attend = Attend(ScaledDot())
    states = torch.randn(2, 3, 5)
    with record(attend) as outer:
        with record(attend) as inner:
            attend(states, Memory(states, states))
        assert (len(inner), len(outer)) == (1, 0)
        attend(states, Memory(states, states))
    attend(states, Memory(states, states))
    assert inner[""].shape == outer[""].shape == (2, 3, 3)


def test_another_model_is_not_heard():
    mine, other = Attend(ScaledDot()), Attend(ScaledDot())
    states = torch.randn(2, 3, 5)
    with pytest.raises(ValueError, match="nothing was recorded"), record(mine):
        other(states, Memory(states, states))


def test_an_error_inside_ends_the_recording():
    attend = Attend(ScaledDot())
    states = torch.randn(2, 3, 5)
    with pytest.raises(KeyError), record(attend) as maps:
        raise KeyError
    attend(states, Memory(states, states))
    assert not maps


def test_maps_carry_no_graph_and_nothing_keeps_them():
    attend = Attend(ScaledDot())
    states = torch.randn(2, 3, 5, requires_grad=True)
    with record(attend) as maps:
        attend(states, Memory(states, states))
    weights = maps[""]
    assert not weights.requires_grad
    gone = weakref.ref(maps)
    assert not [name for name, kept in vars(attend).items() if isinstance(kept, Tensor)]
    del maps, weights
    gc.collect()
    assert gone() is None


LONG = 1024


def long_read(score: Score) -> tuple[Attend, Tensor, Memory]:
    """Of a thousand keys by as many queries, in two heads, some hidden."""
    query, key, value = (torch.randn(2, 2, LONG, 5, dtype=torch.float64) for _ in range(3))
    mask = causal(LONG) & padding(torch.tensor([LONG, 700]), LONG).with_head_axis()
    return Attend(score).double(), query, Memory(key, value, mask)


@pytest.mark.parametrize("score", [ScaledDot(), Cosine(5.0)], ids=["scaled-dot", "cosine"])
def test_chosen_rows_of_a_long_read_are_those_of_the_whole(score: Score):
    attend, query, memory = long_read(score)
    rows = [0, 7, 999]
    with record(attend) as whole:
        wanted = attend(query, memory)
    with record(attend, heads=[1], rows=rows) as some:
        found = attend(query, memory)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(some[""], whole[""][:, [1]][..., rows, :], rtol=1e-12, atol=1e-12)
    with record(attend, rows=rows, reduce=Greatest(3)) as most:
        attend(query, memory)
    expected = whole[""][..., rows, :].topk(3, -1)
    torch.testing.assert_close(most[""], expected.values, rtol=1e-12, atol=1e-12)
    # the first row has one key to read
    assert torch.equal(most.key_indices("")[..., 1:, :], expected.indices[..., 1:, :])


def test_weights_of_their_own_rows_have_gradients():
    attend, query, memory = long_read(ScaledDot())
    query.requires_grad_()
    gradients = []
    for rows in (None, [3, 500]):
        with record(attend, rows=rows, differentiable=True) as maps:
            attend(query, memory)
        kept = maps[""] if rows else maps[""][..., [3, 500], :]
        gradients += torch.autograd.grad((kept * torch.arange(1.0, LONG + 1)).sum(), query)
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("lengths", [None, [LONG, 700]])
def test_nothing_as_large_as_the_scores_is_made_for_some_rows(lengths: list[int] | None):
    heads = MultiHead(6, 2)
    states = torch.randn(2, LONG, 6)
    mask = causal(LONG) if lengths is None else padding(torch.tensor(lengths), LONG)
    scores = 2 * 2 * LONG * LONG * states.element_size()
    memory = Memory(states, states, mask)
    with torch.no_grad():
        assert peak_bytes(lambda: heads(states, memory)) < scores / 20
        with record(heads, rows=[3, 999], reduce=Greatest(2)):
            assert peak_bytes(lambda: heads(states, memory)) < scores / 20
        with record(heads):
            assert peak_bytes(lambda: heads(states, memory)) > scores
