"""Heads that share heads of keys and values: stored, cached and multiplied as groups, the same as repeated ones."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Attend
from regard.attention.heads import MultiHead, causal_attention, empty_cache
from regard.attention.masks import Mask, as_mask, causal, padding, window
from regard.attention.memory import Memory
from regard.attention.record import record
from regard.attention.scores import Cosine, Distance, Dot, General, ScaledDot, Score, TanhDot

HEADS, WIDTH, QUERIES, KEYS = 6, 4, 5, 7
SCORES = {"dot": Dot, "scaled": ScaledDot, "general": lambda: General(WIDTH, WIDTH, heads=HEADS), "cosine": Cosine}
SCORES |= {"distance": Distance, "tanh": lambda: TanhDot(WIDTH, WIDTH, heads=HEADS)}
MASKS = {
    "none": lambda: None,
    "padding": lambda: padding(torch.tensor([7, 3]), KEYS),
    "causal": lambda: causal(QUERIES, KEYS),
    "window": lambda: window(QUERIES, KEYS, before=2, after=0),
    "dense": lambda: as_mask(torch.rand(2, QUERIES, KEYS, generator=torch.Generator().manual_seed(5)) < 0.6),
}


def grouped(groups: int, score: Score) -> MultiHead:
    torch.manual_seed(3)
    return MultiHead(HEADS * WIDTH, HEADS, attend=Attend(score), key_value_heads=groups).double()


def repeated(heads: MultiHead) -> MultiHead:
    """The same with the maps of keys and values written out for every head."""
    whole = MultiHead(HEADS * WIDTH, HEADS, attend=heads.attend).double()
    whole.query, whole.output = heads.query, heads.output
    for mine, theirs in ((whole.key, heads.key), (whole.value, heads.value)):
        each = HEADS // heads.key_value_heads
        mine.weight = torch.nn.Parameter(
            theirs.weight.unflatten(0, (-1, WIDTH)).repeat_interleave(each, 0).flatten(0, 1).detach()
        )
        mine.bias = torch.nn.Parameter(
            theirs.bias.unflatten(0, (-1, WIDTH)).repeat_interleave(each, 0).flatten().detach()
        )
    return whole


@pytest.mark.parametrize("path", ["plain", "fused"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_are_repeated_heads(groups: int, score: str, mask: str, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Attend, "fused", path == "fused")
    heads = grouped(groups, SCORES[score]())
    query, states = (torch.randn(2, size, HEADS * WIDTH).double().requires_grad_() for size in (QUERIES, KEYS))
    chosen: Mask | None = MASKS[mask]()
    found, expected = (each(query, Memory(states, states, chosen)) for each in (heads, repeated(heads)))
    torch.testing.assert_close(found, expected)
    mine, theirs = (torch.autograd.grad(each.square().sum(), [query, states]) for each in (found, expected))
    torch.testing.assert_close(mine, theirs)
    maps = [recorded(each, query, states, chosen) for each in (heads, repeated(heads))]
    assert maps[0].shape == (2, HEADS, QUERIES, KEYS)
    torch.testing.assert_close(*maps)
    some = recorded(heads, query, states, chosen, heads=[5, 0], rows=[4, 1])
    torch.testing.assert_close(some, maps[0][:, [5, 0]][:, :, [4, 1]])
    lengths = [recorded(each, query, states, chosen, measure=by_length) for each in (heads, repeated(heads))]
    torch.testing.assert_close(*lengths)


def recorded(module: MultiHead, query: Tensor, states: Tensor, mask: Mask | None, **choice: Any) -> Tensor:
    with torch.no_grad(), record(module, **choice) as maps:
        module(query, Memory(states, states, mask))
    (weights,) = maps.values()
    return weights


def by_length(module: torch.nn.Module, weights: Tensor, value: Tensor) -> Tensor:
    return weights * value.norm(dim=-1).unsqueeze(-2)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_the_cache_keeps_one_head_a_group(groups: int):
    heads = grouped(groups, ScaledDot())
    states = torch.randn(2, KEYS, HEADS * WIDTH).double()
    with torch.no_grad():
        past, steps = empty_cache(heads, states), []
        for step in states.split(1, 1):
            context, past = causal_attention(heads, step, past)
            steps.append(context)
    assert past.key.shape[:2] == past.value.shape[:2] == (2, groups)
    expected = heads(states, Memory(states, states, causal(KEYS)))
    torch.testing.assert_close(torch.cat(steps, 1), expected)


def test_keys_that_heads_share_are_not_copied(monkeypatch: pytest.MonkeyPatch):
    """A step of a decode multiplies the cache as it lies."""
    heads, seen = grouped(2, ScaledDot()), []
    genuine = torch.nn.functional.scaled_dot_product_attention

    def spy(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
        seen.append((query.shape, key.shape, options["enable_gqa"]))
        return genuine(query, key, value, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    states = torch.randn(2, KEYS, HEADS * WIDTH).double()
    heads(states[:, :1], Memory(states, states, padding(torch.tensor([7, 3]), KEYS)))
    assert seen == [((2, 2, 3, WIDTH), (2, 2, KEYS, WIDTH), False)]
