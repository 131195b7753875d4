"""Encoders that leave padding out give what they give with it, and a cache grows without changing the one before."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import memory as module
from regard.attention.memory import KVCache, Packing
from regard.attention.record import record
from regard.models.bert import Bert, BertConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layers import run_layers

LENGTHS = torch.tensor([3, 11, 0, 1, 5])
TOKENS = torch.randint(5, 17, (5, 11), generator=torch.Generator().manual_seed(2))
REAL = torch.arange(11) < LENGTHS[:, None]
CONFIGS: dict[str, Any] = {"layers": 2, "width": 6, "heads": 2, "hidden": 7}


def bert() -> Callable[[Tensor, Tensor], Tensor]:
    return Bert(17, BertConfig(**CONFIGS, context=13)).double().eval()


def transformer() -> Callable[[Tensor, Tensor], Tensor]:
    config = TransformerConfig(**CONFIGS, key_value_heads=1)
    encoder = Transformer(17, 17, config).double().eval().encoder
    return lambda tokens, lengths: encoder(tokens, lengths).key


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKING_SHARE", 0.0)


def test_real_tokens_are_packed_row_by_row():
    packing = Packing.of(LENGTHS, 11)
    assert packing is not None
    states = torch.randn(5, 11, 3, dtype=torch.float64, requires_grad=True)
    packed = packing.pack(states)
    assert torch.equal(packed, states[REAL])
    assert torch.equal(packing.unpack(packed), states.masked_fill(~REAL[..., None], 0.0))
    assert torch.autograd.gradcheck(lambda each: packing.unpack(packing.pack(each).square()), states)


@pytest.mark.parametrize(("lengths", "pays"), [([7, 7, 7], False), ([7, 6, 6], False), ([7, 5, 5], True), ([0], True)])
def test_little_padding_stays(lengths: list[int], pays: bool):
    assert (Packing.of(torch.tensor(lengths), 7) is not None) is pays


@pytest.mark.parametrize("make", [bert, transformer])
def test_states_are_those_of_each_sequence_alone(make: Callable[[], Callable[..., Tensor]]):
    encoder = make()
    found = encoder(TOKENS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1])[0]
        torch.testing.assert_close(found[row, :length], alone, rtol=1e-12, atol=1e-12)


def test_maps_and_gradients_are_those_with_padding(monkeypatch: pytest.MonkeyPatch):
    model = bert()
    assert isinstance(model, Bert)
    upstream = torch.randn(int(REAL.sum()), 6, dtype=torch.float64)
    found, gradients = [], []
    for _ in range(2):
        model.zero_grad()
        with record(model) as maps:
            (model(TOKENS, LENGTHS)[REAL] * upstream).sum().backward()
        found.append({name: weights * REAL[:, None, :, None] for name, weights in maps.items()})
        gradients.append({name: each.grad for name, each in model.named_parameters() if each.grad is not None})
        without(monkeypatch)
    assert len(found[0]) == 2
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-12)


def test_what_stands_in_padding_is_inert():
    model = bert()
    assert isinstance(model, Bert)
    states = torch.randn(5, 11, 6, dtype=torch.float64)
    found = [*run_layers(model.encoder.layers, states, LENGTHS)]
    spoilt = [*run_layers(model.encoder.layers, states.masked_fill(~REAL[..., None], torch.nan), LENGTHS)]
    torch.testing.assert_close(found, spoilt, rtol=0, atol=0)
    assert all(not each[~REAL].any() for each in found)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def grown(past: KVCache, *counts: int) -> tuple[KVCache, Tensor, Tensor]:
    keys, values = [past.memory().key], [past.memory().value]
    for count in counts:
        key, value = drawn(2, 3, count, 5), drawn(2, 3, count, 7)
        past = past.append(key, value)
        keys.append(key)
        values.append(value)
    return past, torch.cat(keys, -2), torch.cat(values, -2)


def empty() -> KVCache:
    return KVCache.of(drawn(2, 3, 0, 5), drawn(2, 3, 0, 7))


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("counts", [(1,), (2, 1, 1), (1, 3, 1, 11, 1), (1,) * 41])
def test_what_is_appended_is_read(counts: tuple[int, ...], gradient: bool):
    with torch.set_grad_enabled(gradient):
        past, keys, values = grown(empty(), *counts)
    assert past.length == sum(counts)
    assert torch.equal(past.memory().key, keys)
    assert torch.equal(past.memory().value, values)


@torch.no_grad()
def test_two_that_grow_from_one_do_not_meet():
    past, *_ = grown(empty(), 2, 1)
    first, keys, _ = grown(past, 1)
    second = past.append(-drawn(2, 3, 1, 5), -drawn(2, 3, 1, 7))
    assert torch.equal(first.memory().key, keys)
    assert torch.equal(second.memory().key[..., -1:, :], -keys[..., -1:, :])


@torch.no_grad()
def test_rows_that_are_chosen_grow_by_themselves():
    past, keys, values = grown(empty(), 2, 1)
    chosen = past.select(torch.tensor([1, 1, 0]))
    more = drawn(3, 3, 1, 5), drawn(3, 3, 1, 7)
    after = chosen.append(*more)
    assert torch.equal(after.memory().key, torch.cat([keys[[1, 1, 0]], more[0]], -2))
    assert torch.equal(after.memory().value, torch.cat([values[[1, 1, 0]], more[1]], -2))
    assert torch.equal(past.memory().key, keys)
