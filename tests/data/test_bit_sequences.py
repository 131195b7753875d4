"""Bit sequences follow the paper, step by step, and a user's text becomes the same."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.bandits import RandomAgent
from regard.errors import InputError
from regard.tasks.algorithmic import Algorithmic, AlgorithmicRun, Copy, Recall, RepeatCopy, collate_bits
from regard.tasks.meta_rl import Bandits, MetaRL, MetaRLRun, act
from regard.tasks.pointer import ConvexHull, PointedSet, Sorting, collate_sets
from regard.text.kinds import END, IGNORED, PAD, START


def test_copy():
    data = Copy(width=3)
    found = data.parse("011 100")
    assert found.inputs.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    assert found.target.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_repeat_copy_scales_the_number_and_ends_with_a_mark():
    data = RepeatCopy(width=2, most_repeats=10)
    found = data.parse("01 11 x2")
    assert found.target.tolist() == [[0, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert len(found) == 2 + 1 + 5
    numbers = [data.repeat(found.target[:1, :2], count).inputs[1, 2] for count in range(1, 11)]
    assert (np.mean(numbers), np.var(numbers)) == pytest.approx((0, 1), abs=1e-6)
    assert RepeatCopy(most_repeats=1, train=3).load().train[0].inputs.max() == 1


def test_recall_asks_for_an_item_and_wants_the_next():
    data = Recall(width=2, vectors=2)
    found = data.parse("01,11 10,00 11,11 ? 10,00")
    marks = found.inputs[:, 2:].tolist()
    assert marks == [[1, 0], [0, 0], [0, 0]] * 3 + [[0, 1], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
    assert found.inputs[4:6, :2].tolist() == found.inputs[10:12, :2].tolist() == [[1, 0], [0, 0]]
    sequence = data.sample(3, np.random.default_rng(0))
    items = [sequence.inputs[start : start + 2, :2].tolist() for start in (1, 4, 7)]
    assert sequence.target.tolist() == items[items.index(sequence.inputs[10:12, :2].tolist()) + 1]


def test_lengths_are_between_the_bounds_and_beyond_them_on_request():
    data = Copy(train=300, least=2, most=4)
    assert {len(each.target) for each in data.load().train} == {2, 3, 4}
    assert {len(each.target) for each in replace(data, least=120, most=120, test=3).tests()} == {120}


def test_a_batch_has_targets_for_the_last_steps_only():
    data = Copy(width=2)
    batch = collate_bits([data.parse(text) for text in ("01", "11 10 01")])
    assert batch.inputs.shape == (2, 7, 3)
    assert batch.lengths.tolist() == [3, 7]
    assert batch.predicted.int().tolist() == [[0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]]
    assert batch.targets.tolist() == [[0, 1], [1, 1], [1, 0], [0, 1]]
    assert not batch.inputs[0, 3:].any()
    assert torch.equal(batch.to("cpu").predicted, batch.predicted)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (Copy(width=3), ["011 10", "10 11", "012", " "]),
        (RepeatCopy(width=2), ["01 11", "01 x0", "01 x1001", "01 xx2", "x3"]),
        (Recall(width=2), ["01,11,00 10,00,11", "01,11,00 ? 01,11", "01,11,00 ? 01,11,00 01,11,00", "? 01,11,00"]),
    ],
)
def test_what_cannot_be_understood(data: Any, lines: list[str]):
    run = AlgorithmicRun(Algorithmic(data=data), torch.nn.Identity())
    for line in lines:
        with pytest.raises(InputError, match=rf"^a: {re.escape(repr(line))}; expected (vectors|items) of "):
            run.parse(line, "a")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Copy(least=5, most=3), "copy: least is 5 and most 3; expected 1 <= least <= most"),
        (lambda: Recall(least=1), "recall: least is 1 and most 6; expected 2 <= least <= most"),
    ],
)
def test_sizes_that_do_not_fit(make: Any, said: str):
    with pytest.raises(InputError) as caught:
        make()
    assert said in str(caught.value)


def test_sorting():
    splits = Sorting(train=50, valid=3, test=0, least=2, most=7, seed=3).load()
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (50, 3, 0)
    assert {len(each.elements) for each in splits.train} == set(range(2, 8))
    for each in splits.train:
        found = [each.elements[place] for place in each.target]
        assert found == sorted(each.elements)
    assert Sorting().solve([(0.5,), (0.1,), (0.5,)]) == [1, 0, 2]


def test_convex_hulls_have_all_points_on_their_left_and_turn_once():
    for each in ConvexHull(train=200, valid=1, test=1, least=3, most=11, seed=3).load().train:
        corners = [each.elements[place] for place in each.target]
        turned = 0.0
        for (ax, ay), (bx, by) in pairwise([*corners, corners[0]]):
            for x, y in each.elements:
                assert (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= -1e-12
            turned += ax * by - bx * ay
        assert turned > 0  # the area, by the shoelace formula: counter-clockwise
        assert len(corners) >= 3
        assert each.target[0] == min(each.target)


def test_sets_differ_between_splits_and_seeds():
    one, other = Sorting(train=3, valid=3, test=3).load(), Sorting(train=3, valid=3, test=3, seed=2).load()
    assert len({each.elements for each in (*one.train, *one.valid, *one.test, *other.train)}) == 12
    assert one == Sorting(train=3, valid=3, test=3).load()


def test_sizes_of_sets_that_cannot_be():
    with pytest.raises(InputError, match="least is 8 and most 7; expected 1 <= least <= most"):
        Sorting(least=8, most=7)
    with pytest.raises(InputError, match="expected 3 <= least"):
        ConvexHull(least=2)


def test_batches_are_padded_and_shifted():
    sets = [PointedSet(((0.5, 1.0), (0.25, 0.0)), (1, 0)), PointedSet(((0.125, 2.0),), (0,))]
    batch = collate_sets(sets).to("cpu")
    assert batch.elements.tolist() == [[[0.5, 1.0], [0.25, 0.0]], [[0.125, 2.0], [0.0, 0.0]]]
    assert batch.lengths.tolist() == [2, 1]
    assert batch.target_in.tolist() == [[START, END + 2, END + 1], [START, END + 1, PAD]]
    assert batch.target_out.tolist() == [[END + 2, END + 1, END], [END + 1, END, IGNORED]]
    assert batch.target_tokens == 5


PULLED = Bandits(arms=3, pulls=7)


def test_bandits_are_uniform_and_give_1_as_often_as_they_should():
    means = Bandits(arms=5).sample_seeded(20_000, "arms").means
    assert means.mean().item() == pytest.approx(1 / 2, abs=0.005)
    assert means.var().item() == pytest.approx(1 / 12, abs=0.002)
    assert means.amax(-1).mean().item() == pytest.approx(5 / 6, abs=0.005)
    pulled = Bandits(arms=2, pulls=1).parse("0.25 0.25")
    done = act(RandomAgent(2), replace(pulled, means=pulled.means.expand(40_000, 2)))
    assert set(done.rewards.unique().tolist()) == {0.0, 1.0}
    assert done.rewards.mean().item() == pytest.approx(0.25, abs=0.01)
    assert done.actions.double().mean().item() == pytest.approx(0.5, abs=0.01)


def test_what_an_agent_sees():
    bandits = PULLED.sample_seeded(11, "a")
    done = act(RandomAgent(3), bandits)
    assert done.inputs.shape == (11, 7, PULLED.observation_width)
    assert done.inputs[:, 0].tolist() == [[1, 0, 0, 0, 0, 1]] * 11
    torch.testing.assert_close(done.inputs[:, 1:, 1:4], torch.eye(3)[done.actions[:, :-1]])
    torch.testing.assert_close(done.inputs[:, 1:, 4], done.rewards[:, :-1])
    assert done.inputs[:, :, [0, 5]].all()
    torch.testing.assert_close(bandits.regrets + bandits.means, bandits.means.amax(-1, keepdim=True).expand(-1, 3))


@pytest.mark.parametrize("line", ["0.2 0.3 0.4", "0.2 1.5", "0.2 nan", "a b"])
def test_bandits_that_cannot_be(line: str):
    run = MetaRLRun(MetaRL(data=Bandits(arms=2)), torch.nn.Identity())
    with pytest.raises(InputError, match=rf"^a: {line!r}; expected 2 probabilities"):
        run.parse(line, "a")
