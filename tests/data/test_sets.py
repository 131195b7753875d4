"""Generated sets: their answers by independent rules, and padded batches of them."""

from itertools import pairwise
from typing import Any

import pytest

from regard.errors import InputError
from regard.tasks.pointer import ConvexHull, PointedSet, Sorting, collate_sets
from regard.text.special import END, IGNORED, PAD, START


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": 0}, "train is 0; expected 1 to"),
        ({"test": -1}, "test is -1; expected 0 to"),
        ({"least": 8, "most": 7}, "least is 8 and most 7; expected 1 <= least <= most"),
    ],
)
def test_sizes_that_cannot_be(changes: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        Sorting(**changes)
    with pytest.raises(InputError, match="expected 3 <= least"):
        ConvexHull(least=2)


def test_batches_are_padded_and_shifted():
    sets = [PointedSet(((0.5, 1.0), (0.25, 0.0)), (1, 0), "a"), PointedSet(((0.125, 2.0),), (0,), "b")]
    batch = collate_sets(sets).to("cpu")
    assert batch.elements.tolist() == [[[0.5, 1.0], [0.25, 0.0]], [[0.125, 2.0], [0.0, 0.0]]]
    assert batch.lengths.tolist() == [2, 1]
    assert batch.target_in.tolist() == [[START, END + 2, END + 1], [START, END + 1, PAD]]
    assert batch.target_out.tolist() == [[END + 2, END + 1, END], [END + 1, END, IGNORED]]
    assert batch.target_tokens == 5
