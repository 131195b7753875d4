"""Orders of an epoch in chunks: every example once, from any place on, and small sets as one chunk."""

import tracemalloc
from collections.abc import Sequence
from itertools import islice
from random import Random

import numpy as np
import pytest

from regard.data import order
from regard.data.batches import token_batches
from regard.data.order import (
    Consecutive,
    Order,
    OrderPosition,
    Shuffled,
    numpy_random,
    uniform,
)

COUNT = 211
LENGTHS = np.random.RandomState(3).randint(1, 23, (COUNT, 2)).astype(np.int32)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 35 examples, in blocks of 7."""
    monkeypatch.setattr(order, "CHUNK", 35)
    monkeypatch.setattr(order, "BLOCK", 7)


def orders(epoch: int) -> list[Order]:
    return [Shuffled(COUNT, 3, f"1/{epoch}"), token_batches(LENGTHS, 53, 1, epoch), Consecutive(30, 7)]


def examples(batches: Order) -> list[int]:
    return [index for batch in batches for index in batch]


@pytest.mark.usefixtures("small")
def test_chunks_have_every_example_once():
    for each in orders(5):
        assert each.chunks > 5
        assert len(each) == len(list(each))
        assert sorted(examples(each)) == list(range(len(examples(each))))
    assert len(examples(orders(5)[1])) == COUNT


@pytest.mark.usefixtures("small")
def test_a_walk_from_any_mark_is_the_rest_of_the_whole():
    for each in orders(2):
        whole = list(each.walk())
        for number, (mark, batch) in enumerate(whole):
            assert list(islice(each.walk(number, mark), 4)) == whole[number : number + 4]
            assert list(each.walk(number)) == whole[number:]
            assert each[number] == batch
        last = whole[-1][0]
        assert list(each.walk(len(whole), last)) == []
        assert each[-1] == whole[-1][1]
        with pytest.raises(IndexError):
            each[len(whole)]


@pytest.mark.usefixtures("small")
def test_a_mark_spares_the_chunks_before_it():
    computed = []

    class Noted(Shuffled):
        def chunk(self, number: int) -> Sequence[list[int]]:
            computed.append(number)
            return super().chunk(number)

    list(islice(Noted(COUNT, 3, "1/0").walk(40, OrderPosition(3, 35)), 2))
    assert computed == [3]


@pytest.mark.usefixtures("small")
def test_no_batch_of_a_chunk_is_above_the_size():
    for batch in token_batches(LENGTHS, 53, 1, 3):
        assert len(batch) * LENGTHS[batch].max() <= 53


def test_numpys_numbers_are_pythons():
    one, other = Random("1/2"), Random("1/2")
    expected = [[other.random(), other.random()] for _ in range(701)]
    assert uniform(one, 701, 2).tolist() == expected
    assert [one.random() for _ in range(5)] == [other.random() for _ in range(5)]
    assert numpy_random(one).random_sample() == one.random()


def test_a_set_of_one_chunk_is_shuffled_as_a_list():
    expected = list(range(23))
    Random("1 4").shuffle(expected)
    assert examples(Shuffled(23, 5, "1 4")) == expected


def test_a_chunk_of_a_large_set_takes_the_memory_of_a_chunk():
    lengths = np.full((3_000_000, 2), 13, dtype=np.int32)
    batches = token_batches(lengths, 4096, 1, 1)
    tracemalloc.start()
    next(iter(batches.walk(0, OrderPosition(17, 0))))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40 << 20  # a list of the examples alone would take 100 MB
