"""Prompts whose tokens read each other in both directions: the same features and tokens with a cache and without."""

import pytest
import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.record import record
from regard.decoding.continuation import Prefixed
from regard.decoding.search import Search
from regard.errors import InputError
from regard.models.fused import fuse
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.llama import Llama, LlamaConfig

TOKENS, CONTEXT = 23, 40
MODELS = {
    "gpt2": lambda: GPT2(TOKENS, GPT2Config(layers=2, width=20, heads=5, context=CONTEXT, dropout=0.0)),
    "rotary": lambda: GPT2(TOKENS, GPT2Config(layers=2, width=20, heads=5, context=CONTEXT, positions="rotary")),
    "fused": lambda: fused(GPT2(TOKENS, GPT2Config(layers=2, width=20, heads=5, context=CONTEXT, dropout=0.0))),
    "llama": lambda: Llama(TOKENS, LlamaConfig(layers=2, width=24, heads=6, key_value_heads=2, context=CONTEXT)),
    "window": lambda: Llama(TOKENS, LlamaConfig(layers=2, width=24, heads=6, context=CONTEXT, window=4, sinks=1)),
}
Model = GPT2 | Llama


def fused(model: GPT2) -> GPT2:
    fuse(model)
    return model


def made(name: str) -> Model:
    torch.manual_seed(5)
    model = MODELS[name]().eval()
    for parameter in model.parameters():  # sharp enough that a changed mask changes the tokens
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def drawn(*shape: int) -> Tensor:
    return torch.randint(4, TOKENS, shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_steps_behind_a_prefix_give_what_one_pass_gives(name: str):
    """For prefixes of several lengths in one batch, after rows were chosen too."""
    model, tokens, lengths = made(name), drawn(3, 17), torch.tensor([6, 1, 4])
    whole, _ = model.run(tokens, model.begin(3).with_prefix(lengths))
    first, state = model.run(tokens[:, :6], model.begin(3).with_prefix(lengths))
    found = [first]
    for token in tokens[:, 6:].split(1, 1):
        step, state = model.run(token, state)
        found.append(step)
    torch.testing.assert_close(torch.cat(found, 1), whole)
    rows = torch.tensor([2, 0])
    chosen, _ = model.run(tokens[rows], model.begin(3).with_prefix(lengths).select(rows))
    torch.testing.assert_close(chosen, whole[rows])


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_what_a_prefix_reads(name: str):
    """A later token of the prefix changes an earlier one; a later token behind it does not. A prefix of one token is
    none."""
    model, tokens, lengths = made(name), drawn(1, 12), torch.tensor([5])
    features, _ = model.run(tokens, model.begin(1).with_prefix(lengths))
    for place, least in ((4, 0), (7, 7)):
        changed = tokens.clone()
        changed[0, place] = 4 + (changed[0, place] - 3) % (TOKENS - 4)
        other, _ = model.run(changed, model.begin(1).with_prefix(lengths))
        same = torch.isclose(features, other, atol=1e-5).all(-1)[0]
        assert same.tolist()[:least] == [True] * least
        assert not same[least]
    causal, _ = model.run(tokens, model.begin(1))
    alone, _ = model.run(tokens, model.begin(1).with_prefix(torch.tensor([1])))
    torch.testing.assert_close(alone, causal)
    assert not torch.allclose(features, causal, atol=1e-3)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_generation_with_a_cache_writes_what_passes_without_one_write(name: str, beam: int):
    model, prompts = made(name), drawn(2, 5)
    nothing = torch.zeros(2, 0, 1)
    search = Search(beam=beam)
    found = search(Prefixed(model, prompts), Memory(nothing, nothing), torch.tensor([9, 9]))
    for row, hypotheses in enumerate(found):
        tokens = [*hypotheses[0].tokens]
        given = torch.tensor([[*prompts[row].tolist(), *tokens]])
        features, _ = model.run(given, model.begin(1).with_prefix(torch.tensor([5])))
        scores = model.output(features)[0, 4:].log_softmax(-1)
        if beam == 1:
            writable = scores.clone()
            writable[:, [model.special.pad, model.special.start]] = -torch.inf
            assert writable.argmax(-1).tolist()[: len(tokens)] == tokens
        total = scores[range(len(tokens)), tokens].sum()
        if hypotheses[0].finished:
            total = total + scores[len(tokens), model.special.end]
        torch.testing.assert_close(total, torch.tensor(hypotheses[0].score), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@torch.no_grad()
def test_the_weights_of_a_prefix_are_recorded(name: str):
    model, tokens = made(name), drawn(1, 8)
    with record(model, "*.self_attention") as maps:
        model.run(tokens, model.begin(1).with_prefix(torch.tensor([3])))
    assert maps
    for weights in maps.values():
        reads = (weights > 0)[0].any(0)
        assert reads[:3, :3].all()
        assert not reads[:, 3:].triu(-2).any()


def test_a_prefix_is_read_at_once_and_first():
    model, tokens = made("llama"), drawn(1, 8)
    with pytest.raises(InputError, match=r"the first 5 positions read each other.* it has 3, give all"):
        model.run(tokens[:, :3], model.begin(1).with_prefix(torch.tensor([5])))
    _, state = model.run(tokens, model.begin(1))
    with pytest.raises(InputError, match="8 tokens were read; give it to a new state"):
        state.with_prefix(torch.tensor([5]))
