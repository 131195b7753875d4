import itertools
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from regard.data import batches as batching
from regard.data.batches import (
    Consecutive,
    Order,
    OrderPosition,
    Shuffled,
    batch_size,
    collate,
    numpy_random,
    token_batches,
    uniform,
)
from regard.errors import InputError
from regard.text.kinds import END, IGNORED, PAD, START


def realistic(count):
    """Sentence lengths as in captions: a median near 13, a tail to 50, both sides alike."""
    dice = Random(5)
    lengths = []
    for _ in range(count):
        target = min(50, max(3, round(dice.lognormvariate(2.55, 0.33))))
        lengths.append((max(2, target + round(dice.gauss(0, 2.5))), target))
    return lengths


LENGTHS = realistic(3001)


@pytest.mark.parametrize("tokens", [53, 512, 4096, 10**6])
def test_every_example_once_and_no_batch_above_the_size(tokens):
    batches = token_batches(LENGTHS, tokens, seed=7, epoch=3)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    assert all(batches)
    assert max(len(batch) * max(max(LENGTHS[index]) for index in batch) for batch in batches) <= tokens


def test_little_padding():
    for epoch in range(3):
        batches = token_batches(LENGTHS, 1024, seed=1, epoch=epoch)
        padded = sum(len(batch) * max(LENGTHS[index][side] for index in batch) for batch in batches for side in (0, 1))
        assert 1 - sum(map(sum, LENGTHS)) / padded < 0.1


def test_a_pure_function_of_its_arguments():
    first = list(token_batches(LENGTHS, 512, seed=1, epoch=2))
    assert list(token_batches(list(LENGTHS), 512, seed=1, epoch=2)) == first
    assert list(token_batches(LENGTHS, 512, seed=1, epoch=3)) != first
    assert list(token_batches(LENGTHS, 512, seed=2, epoch=2)) != first


def test_the_same_in_every_process():
    program = (
        "from regard.data.batches import token_batches\n"
        "print(list(token_batches([(n % 7 + 1, n % 11 + 1) for n in range(130)], 60, 3, 5)))"
    )
    here = list(token_batches([(n % 7 + 1, n % 11 + 1) for n in range(130)], 60, 3, 5))
    source = Path(__file__).parents[2] / "src"
    environment = {"PYTHONPATH": str(source), "PYTHONHASHSEED": "1"}
    result = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert result.stdout.decode().strip() == str(here)


def test_the_order_of_batches_is_mixed():
    means = [
        sum(LENGTHS[index][1] for index in batch) / len(batch) for batch in token_batches(LENGTHS, 512, seed=1, epoch=1)
    ]
    rising = sum(a < b for a, b in itertools.pairwise(means))
    assert 0.35 < rising / len(means) < 0.65


def test_an_example_longer_than_a_batch_is_named():
    with pytest.raises(InputError, match=r"example 2: 17 tokens, more than training\.batch_tokens, 13"):
        token_batches([(2, 3), (13, 13), (5, 17)], 13, seed=1, epoch=1)


def test_fewer_examples_than_one_batch_lower_it_aloud(caplog: pytest.LogCaptureFixture):
    examples = [(5, 3), (2, 7), (1, 1)]
    with caplog.at_level("INFO", "regard"):
        assert batch_size(examples, 13, "training texts") == 13
        assert not caplog.messages
        assert batch_size(examples, 14, "training texts") == 7
        assert batch_size([(2, 1)] * 20, 64, "pairs") == 10
    assert caplog.messages == [
        "training.batch_tokens is lowered from 14 to 7, since 3 training texts are fewer than one batch",
        "training.batch_tokens is lowered from 64 to 10, since 20 pairs are fewer than one batch",
    ]
    with pytest.raises(InputError, match="pairs: there are none; add data"):
        batch_size([], 1, "pairs")


EXAMPLES = [([5, 6, 7], [8]), ([9], [10, 11]), ([], [])]


def test_layout_for_teacher_forcing():
    batch = collate(EXAMPLES)
    assert batch.source.tolist() == [[5, 6, 7, END], [9, END, PAD, PAD], [END, PAD, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_in.tolist() == [[START, 8, PAD], [START, 10, 11], [START, PAD, PAD]]
    assert batch.target_out.tolist() == [[8, END, IGNORED], [10, 11, END], [END, IGNORED, IGNORED]]
    assert batch.target_lengths.tolist() == [2, 3, 1]
    assert batch.target_tokens == 6 == int((batch.target_out != IGNORED).sum())
    for tensor in (batch.source, batch.source_lengths, batch.target_in, batch.target_out, batch.target_lengths):
        assert tensor.dtype == torch.int64


def test_padding_to_a_multiple():
    batch = collate(EXAMPLES, multiple=3)
    assert batch.source.tolist() == [[5, 6, 7, END, PAD, PAD], [9, END, *[PAD] * 4], [END, *[PAD] * 5]]
    assert batch.source_lengths.tolist() == [4, 2, 1]
    assert batch.target_in.shape == batch.target_out.shape == (3, 3)
    assert batch.target_tokens == 6


def test_collate_leaves_the_examples_alone_and_refuses_none():
    source, target = [5, 7], [11]
    collate([(source, target)])
    assert (source, target) == ([5, 7], [11])
    with pytest.raises(ValueError, match="no examples"):
        collate([])


def test_moving_moves_every_tensor():
    moved = collate(EXAMPLES).to("meta")
    tensors = (moved.source, moved.source_lengths, moved.target_in, moved.target_out, moved.target_lengths)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.target_tokens == 6


COUNT = 211
PAIR_LENGTHS = np.random.RandomState(3).randint(1, 23, (COUNT, 2)).astype(np.int32)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 35 examples, in blocks of 7."""
    monkeypatch.setattr(batching, "CHUNK", 35)
    monkeypatch.setattr(batching, "BLOCK", 7)


def orders(epoch: int) -> list[Order]:
    return [Shuffled(COUNT, 3, f"1/{epoch}"), token_batches(PAIR_LENGTHS, 53, 1, epoch), Consecutive(30, 7)]


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
    for batch in token_batches(PAIR_LENGTHS, 53, 1, 3):
        assert len(batch) * PAIR_LENGTHS[batch].max() <= 53


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
