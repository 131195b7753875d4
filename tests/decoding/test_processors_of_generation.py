"""Minimal length, banned and forced tokens, penalties of repetition and ends at the limit, in every search."""

import math
from typing import Any

import pytest
import torch

from regard.decoding import Beam
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.processors import Banned, RepetitionPenalty
from regard.decoding.search import Search
from tests.decoding.scripted import Language, Scripted, Text, sources

LIMIT = torch.tensor([5, 3, 7])
SEARCHES: list[dict[str, Any]] = [{}, {"beam": 4}, {"temperature": 1.3}]
searches = pytest.mark.parametrize("kind", SEARCHES)


def searched(constraints: DecodingConstraints | None = None, **settings: Any) -> list[Hypothesis]:
    decoder = Scripted(11, Language((4, 5, 6), 11, 1).script)
    found = Search(**settings)(decoder, sources(3), LIMIT, constraints)
    return [best for best, *_ in found]


@searches
def test_no_output_is_shorter_than_the_minimum(kind: dict[str, Any]):
    assert any(len(each.tokens) < 2 for each in searched(**kind))
    for each in searched(min_length=3, **kind):
        assert len(each.tokens) + each.finished >= 3


@searches
def test_no_output_has_a_banned_sequence(kind: dict[str, Any]):
    assert any(set(each.tokens) & {4, 6} for each in searched(min_length=3, **kind))
    for each in searched(min_length=3, banned=((4,), (6,), (5, 5, 5)), **kind):
        assert each.tokens in ((5, 5), (5,), ())


@searches
def test_every_output_begins_with_the_first_token(kind: dict[str, Any]):
    assert {each.tokens[0] for each in searched(first_token=6, **kind)} == {6}


@searches
def test_every_output_ends_at_its_limit(kind: dict[str, Any]):
    language = {"min_length": 9, **kind}  # no end by itself
    assert not any(each.finished for each in searched(**language))
    ended = searched(end_at_limit=True, **language)
    assert [(len(each.tokens), each.finished) for each in ended] == [(4, True), (2, True), (6, True)]


def test_a_finished_hypothesis_comes_before_an_unfinished_one():
    """END has probability 0.1 at first, and nothing ends afterwards."""

    def script(row: int, text: Text) -> list[float]:
        return [-math.inf] * 3 + [math.log(0.1) if not text else -math.inf, math.log(0.9) if not text else 0.0]

    first, second = Beam(2)(Scripted(5, script), sources(1), max_length=4, n_best=2)[0]
    assert (first.finished, first.tokens, second.finished) == (True, (), False)
    assert first.score < second.score


def test_a_repetition_costs_its_penalty_by_hand():
    penalty = RepetitionPenalty(2.0)
    found = penalty(torch.tensor([[1.0, -1.0, 3.0]]), torch.tensor([[0, 1, 1]]), torch.tensor([0]))
    assert found.tolist() == [[0.5, -2.0, 3.0]]


def test_banned_tokens_are_allowed_where_nothing_else_is():
    scores = torch.tensor([[0.5, -math.inf]])
    assert Banned(((0,),))(scores, torch.zeros(1, 0, dtype=torch.long), torch.tensor([0])).tolist() == scores.tolist()


def test_renormalized_scores_share_what_is_forbidden():
    """Padding has most of the probability; without it, one word is as likely as the end."""

    def script(row: int, text: Text) -> list[float]:
        return [5.0, -math.inf, -math.inf, 0.0, 0.0 if not text else -math.inf]

    def best(renormalize: bool) -> Hypothesis:
        return Search(beam=2, renormalize=renormalize)(Scripted(5, script), sources(1), torch.tensor([3]))[0][0]

    assert best(True).score == pytest.approx(math.log(0.5))
    assert best(False).score < -5


def test_a_prompt_neither_costs_nor_counts():
    """The prefix 4 5 as a prompt, of which the search knows that the decoder has read 6 before."""
    prompt = DecodingConstraints(prefixes=((4, 5),), prompts=(2, 2, 2), before=((6,), (6,), (6,)))
    for kind in ({}, {"beam": 3}):
        for one, other in zip(
            searched(prompt, length_penalty=1.0, length_offset=0.0, **kind),
            searched(DecodingConstraints(prefixes=((4, 5),)), **kind),
            strict=True,
        ):
            assert one.tokens[:2] == other.tokens[:2] == (4, 5)
            assert one.score > other.score
    banned = searched(prompt, min_length=2, banned=((4, 5, 6), (6, 4, 5, 5)))
    assert all(each.tokens[2:3] == (4,) for each in banned)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be above 0"),
        ({"banned": ((),)}, "banned has an empty sequence"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Search(**settings)


def test_an_id_beyond_the_vocabulary():
    with pytest.raises(ValueError, match="the search has the id 11; the vocabulary has 0 to 10"):
        searched(banned=((4, 11),))
