"""A cache grows, and its rows are chosen, without changing the one before."""

import pytest
import torch
from torch import Tensor

from regard.nn.kv_cache import KVCache


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
