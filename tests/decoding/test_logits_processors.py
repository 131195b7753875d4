"""Processors and constraints against enumeration: the allowed texts of all, in the same order."""

import pytest
import torch

from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.processors import NoRepeat, Prefix
from regard.decoding.sampling import greedy
from regard.decoding.search import DecodingConstraints, Search
from tests.decoding.scripted import Language, Scripted, Text, sources, spell
from tests.decoding.test_beam import assert_same, expected

LIMIT = 5
SEEDS = range(5)


def repeats(text: Text, size: int) -> bool:
    runs = [text[at : at + size] for at in range(len(text) - size + 1)]
    return len(set(runs)) < len(runs)


def language(seed: int) -> tuple[Language, Scripted]:
    found = Language((4, 5), 63, seed)
    return found, Scripted(63, found.script)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeat(seed: int, size: int):
    """A beam that holds everything: what is found is what repeats nothing, with the scores it had. A text of two words
    that must not repeat a word ends by itself: END may always follow."""
    spoken, decoder = language(seed)
    found = Beam(63, processors=(NoRepeat(size),))(decoder, sources(2), max_length=LIMIT, n_best=63)
    for row, hypotheses in enumerate(found):
        allowed = [each for each in expected(spoken, row, LIMIT) if not repeats(each.tokens, size)]
        assert_same(hypotheses, allowed)


def test_no_repeat_leaves_something_where_nothing_else_could_follow():
    """A model that can say one word alone, and never ends."""
    decoder = Scripted(7, lambda row, text: [-torch.inf] * 4 + [0.0, -torch.inf, -torch.inf])
    assert greedy(decoder, sources(1), max_length=3, processors=[NoRepeat(1)])[0][0].tokens == (4, 4, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_prefix(seed: int):
    """Each source has one of its own, or none; the scores count the prefix."""
    spoken, decoder = language(seed)
    prefixes = [(5, 4), (), (4,)]
    found = Beam(63, processors=(Prefix(prefixes),))(decoder, sources(3), max_length=LIMIT, n_best=63)
    for row, (hypotheses, prefix) in enumerate(zip(found, prefixes, strict=True)):
        begun = [each for each in expected(spoken, row, LIMIT) if each.tokens[: len(prefix)] == prefix]
        assert_same(hypotheses, begun)


def test_prefix_of_greedy_and_of_finished_rows():
    """Rows leave the batch; those behind them keep their own prefixes."""
    decoder = spell(11, [(4,), (5, 6, 4), (6, 6)])
    found = greedy(decoder, sources(3), max_length=9, processors=[Prefix([(), (7, 8, 9), (9,)])])
    assert [each.tokens[:3] for (each,) in found] == [(4,), (7, 8, 9), (9, 6)]


@pytest.mark.parametrize(("made", "said"), [(lambda: NoRepeat(0), "no_repeat is 0; it must be at least 1")])
def test_what_cannot_be(made, said: str):
    with pytest.raises(ValueError, match=said):
        made()


def test_each_row_has_constraints_of_its_own():
    constraints = DecodingConstraints(2, ((4,), (5, 5), (6,)))
    assert constraints.of([2, 0]) == DecodingConstraints(2, ((6,), (4,)))
    constraints.of([1, 0]).check([3, 2])
    with pytest.raises(ValueError, match="needs 3 tokens"):
        constraints.check([3, 2, 4])


def search_with(search: Search, constraints: DecodingConstraints) -> list[list[Hypothesis]]:
    spoken = Language((4, 5, 6), 13, 1)
    return search(Scripted(13, spoken.script), sources(2), torch.tensor([9, 11]), constraints)


@pytest.mark.parametrize("search", [Search(), Search(beam=3), Search(temperature=1.0)])
def test_every_search_keeps_its_prefix(search: Search):
    for (best,) in search_with(search, DecodingConstraints(prefixes=((6, 6, 5),))):
        assert best.tokens[:3] == (6, 6, 5)


@pytest.mark.parametrize("beam", [1, 3])
def test_prefix_and_no_repeat_together(beam: int):
    for (best,) in search_with(Search(beam=beam, no_repeat=2), DecodingConstraints(1, ((6, 6),))):
        assert best.tokens[:2] == (6, 6)
        assert not repeats(best.tokens, 2)


def test_a_demand_longer_than_the_limit():
    with pytest.raises(ValueError, match="needs 10 tokens with the end of the text, more than the limit of 9"):
        search_with(Search(beam=2), DecodingConstraints(prefixes=((4,) * 9,)))
