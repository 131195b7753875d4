"""Processors and constraints against enumeration: the allowed texts of all, in the same order."""

import pytest
import torch

from regard.decoding import Beam, ConstrainedBeam, Hypothesis, NoRepeat, Prefix, greedy
from regard.decoding.beam import missing
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.search import Search
from regard.text.kinds import END
from tests.decoding.scripted import Language, Scripted, Text, sources, spell
from tests.decoding.test_beam import assert_same, expected

LIMIT = 5
SEEDS = range(5)


def repeats(text: Text, size: int) -> bool:
    runs = [text[at : at + size] for at in range(len(text) - size + 1)]
    return len(set(runs)) < len(runs)


def contains(text: Text, phrase: Text) -> bool:
    return any(text[at : at + len(phrase)] == phrase for at in range(len(text)))


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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("phrases", [((4, 4),), ((5, 4), (4, 5)), ((4,), (5,)), ((5, 5, 5),), ()])
def test_phrases(seed: int, phrases: tuple[Text, ...]):
    """The best text that contains all phrases, by enumeration; every finished one contains them."""
    spoken, decoder = language(seed)
    found = ConstrainedBeam(60, phrases=[phrases] * 2)(decoder, sources(2), max_length=LIMIT, n_best=60)
    for row, hypotheses in enumerate(found):
        whole = [
            each
            for each in expected(spoken, row, LIMIT)
            if each.finished and all(contains(each.tokens, phrase) for phrase in phrases)
        ]
        ended = [each for each in hypotheses if each.finished]
        assert_same(ended, whole)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_beam_still_meets_its_phrases(width: int):
    spoken = Language((4, 5, 6, 7), 13, 3)
    phrases = [((7, 7), (6, 4)), (), ((5,),)]
    search = ConstrainedBeam(width, phrases=phrases)
    found = search(Scripted(13, spoken.script), sources(3), max_length=17)
    for (best,), wanted in zip(found, phrases, strict=True):
        assert best.finished
        assert all(contains(best.tokens, phrase) for phrase in wanted)


@pytest.mark.parametrize(
    ("text", "phrase", "left"),
    [
        ((), (4, 5), (4, 5)),
        ((4,), (4, 5), (5,)),
        ((4, 6), (4, 5), (4, 5)),
        ((4, 4), (4, 4, 5), (5,)),
        ((4, 4, 4), (4, 4, 5), (5,)),
        ((4, 5, 9), (4, 5), ()),
        ((9, 4, 5), (5,), ()),
    ],
)
def test_what_of_a_phrase_is_missing(text: Text, phrase: Text, left: Text):
    assert missing(text, phrase) == left


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: NoRepeat(0), "no_repeat is 0; it must be at least 1"),
        (lambda: ConstrainedBeam(4, phrases=[[()]]), "a phrase is empty"),
    ],
)
def test_what_cannot_be(made, said: str):
    with pytest.raises(ValueError, match=said):
        made()


def test_each_row_has_constraints_of_its_own():
    constraints = DecodingConstraints(2, ((4,), (5,), (6,)), (((7,),), (), ((8,), (9, 9))))
    assert constraints.of([2, 0]) == DecodingConstraints(2, ((6,), (4,)), (((8,), (9, 9)), ((7,),)))
    assert DecodingConstraints(2, ((4,),), (((7,),),)).of([1]) == DecodingConstraints(2, ((4,),), (((7,),),))
    constraints.of([1, 0]).check([2, 3])
    with pytest.raises(ValueError, match="need 5 tokens"):
        constraints.check([3, 2, 4])


def test_a_demand_inside_its_prefix_needs_no_more_room():
    DecodingConstraints(1, ((4, 5),), (((4, 5), (5,)),)).check([3])


def search_with(search: Search, constraints: DecodingConstraints) -> list[list[Hypothesis]]:
    spoken = Language((4, 5, 6), 13, 1)
    return search(Scripted(13, spoken.script), sources(2), torch.tensor([9, 11]), constraints)


@pytest.mark.parametrize("search", [Search(), Search(beam=3), Search(temperature=1.0)])
def test_every_search_keeps_its_prefix(search: Search):
    for (best,) in search_with(search, DecodingConstraints(prefixes=((6, 6, 5),))):
        assert best.tokens[:3] == (6, 6, 5)


@pytest.mark.parametrize("beam", [1, 3])
def test_prefix_phrase_and_no_repeat_together(beam: int):
    constraints = DecodingConstraints(1, ((6, 6),), (((4, 5),),))
    for (best,) in search_with(Search(beam=beam, no_repeat=2), constraints):
        assert best.tokens[:2] == (6, 6)
        assert contains(best.tokens, (4, 5))
        assert not repeats(best.tokens, 2)


def test_phrases_need_a_beam():
    with pytest.raises(ValueError, match="phrases need a beam; samples cannot"):
        search_with(Search(temperature=1.0), DecodingConstraints(phrases=(((4,),),)))


def test_a_demand_longer_than_the_limit():
    with pytest.raises(ValueError, match="need 10 tokens with the end of the text, more than the limit of 9"):
        search_with(Search(beam=2), DecodingConstraints(prefixes=((4,) * 9,)))


def test_at_the_limit_a_text_with_the_phrases_is_better_than_a_likelier_one():
    """The model would rather repeat 4, and says END too late."""
    decoder = spell(9, [(4,) * 7])
    (found,) = ConstrainedBeam(4, phrases=[((5, 5), (6,))])(decoder, sources(1), max_length=3, n_best=4)
    assert contains(found[0].tokens, (5, 5))
    assert 6 in found[0].tokens
    assert not found[0].finished
    assert found[0].score < max(each.score for each in found)


def test_end_may_not_come_before_the_phrases():
    decoder = spell(9, [(4,)])
    (found,) = ConstrainedBeam(2, phrases=[((5, 5),)])(decoder, sources(1), max_length=7)
    assert contains(found[0].tokens, (5, 5))
    assert END not in found[0].tokens
