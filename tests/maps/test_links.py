"""Links by hand: what is strongest, how two directions are joined, how links are scored."""

import numpy as np
import pytest

from regard.maps.links import (
    Gold,
    agreement,
    format_pharaoh,
    grow_diag_final_and,
    link_strongest,
    score_links,
    score_maps,
    transpose_links,
)


def links(text: str):
    return frozenset((int(i), int(j)) for i, j in (part.split("-") for part in text.split()))


def test_strongest():
    weights = np.array([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [0.5, 0.0, 0.5]])
    assert link_strongest(weights) == links("1-0 0-2")
    assert link_strongest(np.zeros((2, 0))) == frozenset()


def test_both_directions():
    assert transpose_links(links("0-1 2-3")) == links("1-0 3-2")


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ("0-0", "0-0", "0-0"),
        ("0-0 1-1", "0-0", "0-0 1-1"),  # grown along the diagonal
        ("0-0 0-1", "0-0", "0-0 0-1"),  # beside it: word 1 of the target has no link yet
        ("0-0 0-1", "0-0 1-0", "0-0 0-1 1-0"),  # each of the two new links reaches a word without one
        ("0-0 1-1 0-1", "0-0 1-1", "0-0 1-1"),  # both words of 0-1 have links
        ("0-0 5-5", "0-0", "0-0 5-5"),  # far away, but both words are free: final-and
        ("0-0 0-5", "0-0", "0-0"),  # far away and one word is not free
        ("0-0 1-1 2-2", "0-0", "0-0 1-1 2-2"),  # growth goes on from what has grown
        ("1-1", "0-0", "0-0 1-1"),  # nothing in common: final-and alone
        ("", "", ""),
    ],
)
def test_grow_diag_final_and(forward: str, backward: str, expected: str):
    assert grow_diag_final_and(links(forward), links(backward)) == links(expected)


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        ("0-3 1-3 3-4 4-4", "0-1 0-3 1-1 1-2 2-1 4-0", "0-3 1-2 2-1 3-4 4-0"),
        ("1-4 3-3", "1-2 1-3 1-4 2-2 4-1", "1-3 1-4 2-2 3-3 4-1"),
        ("0-0 1-4 2-1 3-3 4-4", "0-1 0-2 0-3 1-4 2-3 3-2 4-2", "0-3 1-4 2-1 2-3 3-2 4-2"),
        ("1-0 1-1 1-2 3-1 3-3 4-1 4-3", "1-2 1-4 2-3 4-2 4-4", "1-0 1-1 1-2 2-3 3-3 4-2 4-4"),
    ],
)
def test_links_grow_in_the_order_of_atools(forward: str, backward: str, expected: str):
    """Golden values by fast_align's atools; growth from each link in turn to its neighbours differs in all four."""
    assert grow_diag_final_and(links(forward), links(backward)) == links(expected)


def test_scores_by_hand():
    """|A| = 4, |S| = 3, |A & S| = 2, |A & P| = 3: AER = 1 - 5 / 7."""
    gold = [Gold(links("0-0 1-1"), links("0-0 1-1 1-2")), Gold(links("2-2"), links("2-2"))]
    scores = score_links([links("0-0 1-1 1-2"), links("0-0")], gold)
    assert (scores.aer, scores.precision, scores.recall) == pytest.approx((2 / 7, 3 / 4, 2 / 3))


def test_nothing_to_score():
    empty = Gold(frozenset(), frozenset())
    assert score_links([frozenset()], [empty]).aer == 0
    assert score_links([links("0-0")], [empty]).aer == 1
    with pytest.raises(ValueError, match="shorter"):
        score_links([frozenset()], [])


def test_pharaoh_is_in_order():
    assert format_pharaoh(links("10-2 2-1 2-0")) == "2-0 2-1 10-2"
    assert format_pharaoh(frozenset()) == ""


def test_errors_of_maps():
    """Of two maps over two sentences the second is right but for one word: AER by hand, 1 - (2 + 2) / (3 + 2)."""
    right, wrong = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.1, 0.9], [0.7, 0.3]])
    gold = [Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1)})), Gold(frozenset(), frozenset())]
    maps = [np.stack([wrong, right]), np.array([[[1.0]], [[1.0]]])]
    assert score_maps(maps, gold) == pytest.approx([1.0, 1 - 4 / 5])
    assert score_maps([], []) == []


def test_agreement_multiplies_both_directions():
    """Each direction prefers another source word for the second target word; the product decides."""
    forward = np.array([[0.8, 0.2, 0.0], [0.5, 0.4, 0.1]])
    backward = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    assert agreement(forward, backward) == {(0, 0), (1, 1)}
    assert agreement(forward, backward) != link_strongest(forward) & transpose_links(link_strongest(backward))
    assert agreement(np.zeros((2, 3)), np.ones((3, 2))) == frozenset()
