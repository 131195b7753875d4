"""Generated rows of letters: copied or reversed, all different, and at most as many as exist."""

from random import Random
from typing import Literal

import pytest

from regard.data.generated.pairs import Letters, make
from regard.errors import InputError


def test_rows_by_hand():
    row = make(3, "reverse", Random(1))
    assert row.target.split() == row.text.split()[::-1]
    assert row.links == {(2, 0), (1, 1), (0, 2)}
    copied = make(3, "copy", Random(1))
    assert copied.target == copied.text == row.text
    assert copied.links == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("order", ["copy", "reverse"])
def test_lengths_are_as_asked_and_no_row_occurs_twice(order: Literal["copy", "reverse"]):
    splits = Letters(train=200, valid=50, test=50, order=order, least=3, most=7).load()
    pairs = [*splits.train, *splits.valid, *splits.test]
    assert len({pair.source for pair in pairs}) == 300
    assert {len(pair.source.split()) for pair in pairs} == {3, 4, 5, 6, 7}
    assert splits.test[0].place == "letters test 1"


def test_there_are_only_26_rows_of_one_letter():
    with pytest.raises(InputError, match=r"letters: 30 different ones could not be found"):
        Letters(train=10, valid=10, test=10, least=1, most=1).load()


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5), (1, 1001)])
def test_lengths_that_cannot_be(least: int, most: int):
    with pytest.raises(InputError, match=rf"letters: least is {least} and most {most}; expected 1 <= least <= most"):
        Letters(least=least, most=most)
