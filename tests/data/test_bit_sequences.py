"""Bit sequences follow the paper, step by step, and a user's text becomes the same."""

from typing import Any

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.tasks.algorithmic import Copy, Recall, RepeatCopy, collate_bits


def test_copy():
    data = Copy(width=3)
    found = data.read("011 100")
    assert found.inputs.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    assert found.target.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert (data.input_width, data.output_width) == (4, 3)


def test_repeat_copy_scales_the_number_and_ends_with_a_mark():
    data = RepeatCopy(width=2, most_repeats=10)
    found = data.read("01 11 x2")
    assert found.target.tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert len(found) == 2 + 1 + 5
    numbers = [data.repeat(found.target[:1, :2], count).inputs[1, 2] for count in range(1, 11)]
    assert np.mean(numbers) == pytest.approx(0, abs=1e-6)
    assert np.var(numbers) == pytest.approx(1, abs=1e-6)
    assert RepeatCopy(most_repeats=1).load().train[0].inputs.max() == 1


def test_recall_asks_for_an_item_and_wants_the_next():
    data = Recall(width=2, vectors=2)
    found = data.read("01,11 10,00 11,11 ? 10,00")
    marks = found.inputs[:, 2:].tolist()
    assert marks == [[1, 0], [0, 0], [0, 0]] * 3 + [[0, 1], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    assert found.inputs[4:6, :2].tolist() == found.inputs[10:12, :2].tolist() == [[1, 0], [0, 0]]
    sequence = data.sample(3, np.random.default_rng(0))
    items = [sequence.inputs[start : start + 2, :2].tolist() for start in (1, 4, 7)]
    assert sequence.target.tolist() == items[items.index(sequence.inputs[10:12, :2].tolist()) + 1]


def test_lengths_are_between_the_bounds_and_beyond_them_on_request():
    data = Copy(train=300, least=2, most=4)
    assert {len(each.target) for each in data.load().train} == {2, 3, 4}
    assert {len(each.target) for each in data.sample_many(3, (120, 120))} == {120}


def test_a_batch_has_targets_for_the_last_steps_only():
    data = Copy(width=2)
    batch = collate_bits([data.read("01"), data.read("11 10 01")])
    assert batch.inputs.shape == (2, 7, 3)
    assert batch.lengths.tolist() == [3, 7]
    assert batch.predicted.int().tolist() == [[0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]
    assert batch.targets[batch.predicted].tolist() == [[0, 1], [1, 1], [1, 0], [0, 1]]
    assert not batch.inputs[0, 3:].any()
    assert torch.equal(batch.to("cpu").predicted, batch.predicted)


@pytest.mark.parametrize(
    ("data", "text", "said"),
    [
        (Copy(width=3), "011 10", "'10' is no vector; expected 3 bits, each 0 or 1"),
        (Copy(width=3), "012", "'012' is no vector"),
        (Copy(width=3), " ", "has no vectors; expected some, of 3 bits each"),
        (RepeatCopy(width=2), "01 11", "ends with '11'; expected how often to repeat it, from x1 to x1000"),
        (RepeatCopy(width=2), "01 x0", "ends with 'x0'"),
        (RepeatCopy(width=2), "", "ends with ''"),
        (RepeatCopy(width=2), "x3", "has no vectors"),
        (Recall(width=2), "01,11,00 10,00,11", "expected items"),
        (Recall(width=2), "01,11,00 ? 01,11", "'01,11' is no item; expected 3 vectors"),
        (Recall(width=2), "? 01,11,00", "expected items"),
    ],
)
def test_what_cannot_be_understood(data: Any, text: str, said: str):
    with pytest.raises(InputError) as caught:
        data.read(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Copy(least=5, most=3), "copy: least is 5 and most 3; expected 1 <= least <= most"),
        (lambda: Recall(least=1), "recall: least is 1 and most 6; expected 2 <= least <= most"),
        (lambda: Copy(train=0), "copy: train is 0"),
    ],
)
def test_sizes_that_do_not_fit(make: Any, said: str):
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)
