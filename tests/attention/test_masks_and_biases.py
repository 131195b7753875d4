"""Masks, biases and scales against NumPy, on every path; dropout of weights; windows whose past is forgotten."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention import Attend
from regard.attention.heads import MultiHead, causal_attention, empty_cache, remove_bias, self_attention
from regard.attention.history import Coverage, SequentialAttend
from regard.attention.masks import (
    Mask,
    as_mask,
    causal,
    padding,
    window,
)
from regard.attention.memory import LEAST_ROOM, Memory
from regard.attention.positions import Rotary
from regard.attention.record import record
from regard.attention.scores import Additive, ScaledDot
from regard.testing import check_attention

HEADS, WIDTH, LENGTH = 6, 4, 9


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def heads_of(attend: Attend | None = None, groups: int = HEADS, **more: Any) -> MultiHead:
    torch.manual_seed(3)
    return MultiHead(HEADS * WIDTH, HEADS, attend=attend, key_value_heads=groups, **more).double().eval()


def by_hand(heads: MultiHead, states: Tensor, allowed: np.ndarray, score: Callable[..., Any]):
    """The weights, pair by pair: `score` of a product of row, head, query and key."""
    query, key = (each(states).detach().numpy() for each in (heads.query, heads.key))
    query = query.reshape(*states.shape[:2], HEADS, -1)
    key = key.reshape(*states.shape[:2], heads.key_value_heads, -1).repeat(HEADS // heads.key_value_heads, 2)
    weights = np.zeros((len(states), HEADS, LENGTH, LENGTH))
    for b, h, i, j in np.argwhere(np.broadcast_to(allowed, weights.shape)):
        weights[b, h, i, j] = np.exp(score(float(query[b, i, h] @ key[b, j, h]), b, h, i, j))
    return weights


def normalised(weights: np.ndarray, more: np.ndarray | float = 0.0) -> Tensor:
    total = weights.sum(-1, keepdims=True) + more
    return torch.from_numpy(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))


def check(heads: MultiHead, memory: Callable[[Tensor], Memory], expected: Tensor, states: Tensor) -> None:
    """Context and weights, recorded and not, some and all, on the first path and on the plain one."""
    value = heads.value(states).unflatten(-1, (heads.key_value_heads, -1)).movedim(1, 2)
    value = value.repeat_interleave(HEADS // heads.key_value_heads, 1)
    context = heads.output((expected @ value).movedim(1, 2).flatten(-2))
    torch.testing.assert_close(heads(states, memory(states)), context)
    with record(heads) as whole:
        torch.testing.assert_close(heads(states, memory(states)), context)
    torch.testing.assert_close(next(iter(whole.values())), expected)
    with record(heads, heads=[4, 1], rows=[7, 0]) as some:
        heads(states, memory(states))
    torch.testing.assert_close(next(iter(some.values())), expected[:, [4, 1]][:, :, [7, 0]])
    heads.attend.fused = False
    torch.testing.assert_close(heads(states, memory(states)), context)


SOME = torch.rand(2, LENGTH, LENGTH, generator=torch.Generator().manual_seed(2)) < 0.6
MASKS: dict[str, tuple[Mask, Callable[[int, int, int, int], bool]]] = {
    "dense": (as_mask(SOME), lambda b, h, i, j: bool(SOME[b, i, j])),
    "causal and padding": (
        causal(LENGTH) & padding(torch.tensor([9, 5]), LENGTH),
        lambda b, h, i, j: j <= i and j < (9, 5)[b],
    ),
    "sinks": (window(LENGTH, before=2, after=0, sinks=2), lambda b, h, i, j: j <= i and (j >= i - 2 or j < 2)),
    "sinks, both sides": (window(LENGTH, before=1, after=1, sinks=1), lambda b, h, i, j: abs(i - j) < 2 or j < 1),
}


@pytest.mark.parametrize("groups", [HEADS, 2])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, groups: int):
    mask, rule = MASKS[name]
    allowed = np.array(
        [[[[rule(b, h, i, j) for j in range(LENGTH)] for i in range(LENGTH)] for h in range(HEADS)] for b in range(2)]
    )
    heads, states = heads_of(groups=groups), drawn(2, LENGTH, HEADS * WIDTH)
    expected = normalised(by_hand(heads, states, allowed, lambda product, *_: product / WIDTH**0.5))
    check(heads, lambda states: Memory(states, states, mask), expected, states)
    torch.testing.assert_close(mask.with_head_axis().select_queries([7, 0]).dense().expand(2, HEADS, 2, LENGTH).numpy(),
                               allowed[:, :, [7, 0]])  # fmt: skip
    rows = torch.tensor([1, 0, 1])
    chosen = mask.select(rows).with_head_axis().dense().expand(3, HEADS, LENGTH, LENGTH)
    assert np.array_equal(chosen.numpy(), allowed[rows])


def test_a_key_that_two_masks_hide_together_is_inert():
    """The first mask shows key 1 to query 0 only, the second to query 1 only."""
    first, second = torch.ones(3, 3, dtype=torch.bool), torch.ones(3, 3, dtype=torch.bool)
    first[1:, 1], second[0, 1], second[2, 1] = False, False, False
    mask, states = as_mask(first) & second, drawn(1, 3, HEADS * WIDTH)
    expected = self_attention(heads_of(), states, mask)
    states[0, 1] = torch.nan
    garbage = heads_of()(drawn(1, 3, HEADS * WIDTH), Memory(states, states, mask))
    torch.testing.assert_close(garbage, expected)


BIASES = {"of all": (LENGTH, LENGTH), "of rows": (2, LENGTH, LENGTH), "of heads": (2, HEADS, LENGTH, LENGTH)}


@pytest.mark.parametrize("groups", [HEADS, 2])
@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("limit", [None, "causal", "padding"])
def test_biases(name: str, groups: int, limit: str | None):
    bias = drawn(*BIASES[name])
    full = (bias[:, None] if bias.ndim == 3 else bias).expand(2, HEADS, LENGTH, LENGTH).numpy()
    masks: dict[str | None, Mask | None] = {
        None: None,
        "causal": causal(LENGTH),
        "padding": padding(torch.tensor([9, 5]), LENGTH),
    }
    mask = masks[limit]
    allowed = np.ones((1, 1), bool) if mask is None else mask.with_head_axis().dense().numpy()
    heads, states = heads_of(groups=groups), drawn(2, LENGTH, HEADS * WIDTH)
    weights = by_hand(heads, states, allowed, lambda product, *at: product / WIDTH**0.5 + full[at])
    check(heads, lambda states: Memory(states, states, mask, bias=bias), normalised(weights), states)
    rows = torch.tensor([1, 0, 1])
    chosen = Memory(states, states, mask, bias=bias).select(rows)
    both = heads(states[rows], chosen), heads(states, Memory(states, states, mask, bias=bias))[rows]
    torch.testing.assert_close(*both)


@pytest.mark.parametrize("groups", [HEADS, 3])
def test_a_bias_and_positions(groups: int):
    """Rotary positions turn the sides; the bias is added to their product."""
    bias = drawn(LENGTH, LENGTH)
    heads, states = heads_of(None, groups, positions=Rotary(WIDTH)), drawn(2, LENGTH, HEADS * WIDTH)
    fast = heads(states, Memory(states, states, causal(LENGTH), bias=bias))
    with record(heads) as maps:
        torch.testing.assert_close(heads(states, Memory(states, states, causal(LENGTH), bias=bias)), fast)
    with record(heads) as without:
        heads(states, Memory(states, states, causal(LENGTH)))
    weights, plain = next(iter(maps.values())), next(iter(without.values()))
    wanted = plain * bias.exp()
    torch.testing.assert_close(weights, wanted / wanted.sum(-1, keepdim=True))


@pytest.mark.parametrize("groups", [HEADS, 2])
def test_a_scale(groups: int):
    states, causally = drawn(2, LENGTH, HEADS * WIDTH), causal(LENGTH)
    scaled = heads_of(Attend(ScaledDot(0.3)), groups)
    allowed = np.tril(np.ones((LENGTH, LENGTH), bool))
    expected = normalised(by_hand(scaled, states, allowed, lambda product, *_: 0.3 * product))
    check(scaled, lambda states: Memory(states, states, causally), expected, states)


def test_laws_of_widths():
    heads = MultiHead(6, 3, head_width=(2, 5), memory_width=7)
    remove_bias(heads.query, heads.key, heads.value, heads.output)
    check_attention(heads)
    assert heads.prepare(Memory(drawn(2, 3, 7).float(), drawn(2, 3, 7).float())).value.shape == (2, 3, 3, 5)
    assert not any(name.endswith("bias") for name, _ in heads.named_parameters())


READERS: dict[str, Callable[[], Attend]] = {
    "products": lambda: Attend(ScaledDot(), dropout=0.25),
    "an additive score": lambda: Attend(Additive(5, 5, 3), dropout=0.25),
    "a history": lambda: SequentialAttend(Additive(5, 5, 3), Coverage(3), dropout=0.25),
}


@pytest.mark.parametrize("name", READERS)
def test_dropout_of_weights(name: str):
    """In training only: some weights are 0 and the others a third larger, whatever the path; recorded ones are those
    before."""
    reader, query = READERS[name]().double(), drawn(2, 3, 5)
    memory = Memory(drawn(2, 40, 5), torch.eye(40, dtype=torch.float64).expand(2, 40, 40))
    kept = reader.eval()(query, memory)  # the values are unit vectors: contexts are weights
    with record(reader.train()) as maps:
        dropped = reader(query, memory)
    torch.testing.assert_close(maps[""], kept)
    zero = dropped == 0
    assert 0.1 < zero.double().mean() < 0.4
    torch.testing.assert_close(dropped[~zero], kept[~zero] / 0.75)
    torch.testing.assert_close(reader.eval()(query, memory), kept)


@torch.no_grad()
@pytest.mark.parametrize("sinks", [0, 3])
@pytest.mark.parametrize("rotary", [True, False])
def test_a_window_forgets_and_places_stay(sinks: int, rotary: bool):
    """Steps, and parts, are one pass; what is stored is bounded by the window; chosen rows go on by themselves."""
    heads, before, length = heads_of(None, 2, positions=Rotary(WIDTH) if rotary else None), 5, 120
    states = drawn(2, length, HEADS * WIDTH)
    whole, _ = causal_attention(heads, states, empty_cache(heads, states), before, sinks)
    expected = self_attention(heads, states, window(length, before=before, after=0, sinks=sinks))
    torch.testing.assert_close(whole, expected)
    past, found, most = empty_cache(heads, states), [], 0
    for count, part in enumerate(states.split([30, *[1] * 50, 7, *[1] * 33], 1)):
        if count == 20:
            past = past.select(torch.tensor([1, 0]))
            past = past.select(torch.tensor([1, 0]))
        context, past = causal_attention(heads, part, past, before, sinks)
        found.append(context)
        most = max(most, past.key.shape[-2]) if count else 0
    torch.testing.assert_close(torch.cat(found, 1), expected)
    assert past.position == length
    assert most <= 4 * (2 * (before + sinks) + LEAST_ROOM + 7)
    assert past.length <= 2 * (before + sinks) + LEAST_ROOM


@torch.no_grad()
def test_recorded_steps_of_a_window_keep_all_columns():
    heads, states = heads_of(), drawn(1, 60, HEADS * WIDTH)
    past = empty_cache(heads, states)
    with record(heads) as maps:
        for part in states.split(1, 1):
            _, past = causal_attention(heads, part, past, 3, 1)
    weights = next(iter(maps.values()))
    assert weights.shape == (1, HEADS, 60, 60)
    assert weights[0, 0, 50].nonzero()[:, 0].tolist() == [0, 47, 48, 49, 50]
