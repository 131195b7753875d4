"""Beam search against enumeration: on a small language nothing may be missed, and every score is known."""

import pytest
import torch

from regard.decoding.beam import Beam
from regard.decoding.hypothesis import Hypothesis, LengthPenalty
from regard.decoding.sampling import greedy
from regard.text.kinds import END
from tests.decoding.scripted import NO, Language, Scripted, Text, sources, spell

LIMIT = 4
SEEDS = range(5)


def expected(language: Language, row: int, limit: int, alpha: float = 0.0) -> list[Hypothesis]:
    """All texts, best first."""
    found = []
    for text, score, finished in language.everything(row, limit):
        length = len(text) + finished
        found.append(Hypothesis(text, score / ((5 + length) / 6) ** alpha, finished))
    return sorted(found, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def assert_same(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    assert [(each.tokens, each.finished) for each in found] == [(each.tokens, each.finished) for each in wanted]
    assert [each.score for each in found] == pytest.approx([each.score for each in wanted], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_wide_enough_finds_everything_in_order(seed: int):
    """With two words, 15 texts end within 4 tokens and 16 do not: as many as the beam is wide."""
    language = Language((4, 5), 31, seed)
    found = Beam(31)(Scripted(31, language.script), sources(3), max_length=LIMIT, n_best=31)
    assert [len(each) for each in found] == [31, 31, 31]
    for row, hypotheses in enumerate(found):
        assert_same(hypotheses, expected(language, row, LIMIT))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0])
def test_length_penalty_divides_by_the_formula_and_orders(alpha: float):
    language = Language((4, 5), 31, 7)
    penalty = LengthPenalty(alpha)
    found = Beam(31, penalty)(Scripted(31, language.script), sources(2), max_length=LIMIT, n_best=31)
    for row, hypotheses in enumerate(found):
        assert_same(hypotheses, expected(language, row, LIMIT, alpha))


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_narrow_beam_is_never_better_than_all_texts_and_never_wrong_about_a_score(width: int):
    language = Language((4, 5, 6), 11, 3)
    found = Beam(width)(Scripted(11, language.script), sources(5), max_length=LIMIT, n_best=width)
    for row, hypotheses in enumerate(found):
        every = {(each.tokens, each.finished): each.score for each in expected(language, row, LIMIT)}
        assert 1 <= len(hypotheses) <= width
        assert len({each.tokens for each in hypotheses}) == len(hypotheses)
        for each in hypotheses:
            assert each.score == pytest.approx(every[each.tokens, each.finished], rel=1e-5, abs=1e-5)


def test_finished_sources_leave_the_beam():
    """Sources that end at once, after 2 and after 4 words: each takes `width` rows of a step until it is done."""
    decoder = spell(7, [(), (4, 5), (4, 5, 6, 4)])
    found = Beam(1)(decoder, sources(3), max_length=11)
    assert [each[0].tokens for each in found] == [(), (4, 5), (4, 5, 6, 4)]
    assert decoder.rows == [3, 2, 2, 1, 1]
    wide = spell(7, [(), (4, 5), (4, 5, 6, 4)])
    assert [each[0].tokens for each in Beam(3)(wide, sources(3), max_length=11)] == [(), (4, 5), (4, 5, 6, 4)]
    assert wide.rows[0] == 9
    assert wide.rows == sorted(wide.rows, reverse=True)
    assert all(rows % 3 == 0 for rows in wide.rows)
    assert len(wide.rows) < 11


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_of_each_row_equal_a_search_alone(seed: int):
    language = Language((4, 5, 6), 11, seed)
    limit = torch.tensor([1, 5, 3])
    found = Beam(3)(Scripted(11, language.script), sources(3), max_length=limit, n_best=3)
    for row, most in enumerate(limit.tolist()):
        memory = sources(3).select(torch.tensor([row]))
        (alone,) = Beam(3)(Scripted(11, language.script), memory, max_length=most, n_best=3)
        assert_same(found[row], alone)


def test_no_sources():
    assert greedy(spell(7, []), sources(0), max_length=3) == []
    assert Beam(3)(spell(7, []), sources(0), max_length=3) == []
    assert Beam(3)(spell(7, []), sources(0), max_length=torch.tensor([], dtype=torch.long)) == []


@pytest.mark.parametrize("width", [1, 3])
def test_end_is_never_emitted(width: int):
    language = Language((4, 5, 6), 11, 1)

    def endless(row: int, text: Text) -> list[float]:
        return [NO if token == END else logit for token, logit in enumerate(language.script(row, text))]

    for hypotheses in Beam(width)(Scripted(11, endless), sources(3), max_length=5, n_best=width):
        assert len(hypotheses) == width
        assert all(len(each.tokens) == 5 and not each.finished for each in hypotheses)
    for (hypothesis,) in greedy(Scripted(11, endless), sources(3), max_length=5):
        assert (len(hypothesis.tokens), hypothesis.finished) == (5, False)


@pytest.mark.parametrize("limit", [0, -1, torch.tensor([3, 0, 3])])
def test_maximum_length_below_one(limit: int | torch.Tensor):
    with pytest.raises(ValueError, match="it must be at least 1"):
        greedy(spell(7, [(), (), ()]), sources(3), max_length=limit)
    with pytest.raises(ValueError, match="it must be at least 1"):
        Beam(2)(spell(7, [(), (), ()]), sources(3), max_length=limit)


def test_limits_for_another_batch():
    with pytest.raises(ValueError, match=r"shape \(2,\); give one number, or one for each of 3 rows"):
        Beam(2)(spell(7, [(), (), ()]), sources(3), max_length=torch.tensor([3, 5]))


@pytest.mark.parametrize(("width", "n_best"), [(8, 1), (0, 1), (-3, 1), (2, 3), (2, 0), (0, 0)])
def test_widths_that_do_not_fit(width: int, n_best: int):
    with pytest.raises(ValueError, match="1 <= n_best <= width <= 7, the vocabulary"):
        Beam(width)(spell(7, [()]), sources(1), max_length=3, n_best=n_best)


@pytest.mark.parametrize("logit", [NO, float("nan")])
def test_no_token_is_possible(logit: float):
    """Two rows are well until one has nothing to say after its second word."""

    def script(row: int, text: Text) -> list[float]:
        return [logit] * 7 if row == 1 and len(text) == 2 else [NO] * 4 + [1.0, 0.5, NO]

    for width in (1, 2):
        with pytest.raises(ValueError, match="no token is possible"):
            Beam(width)(Scripted(7, script), sources(2), max_length=5)


def test_a_dead_end_of_an_empty_place_is_no_error():
    """With one possible text, the other places of the beam are empty, whatever the decoder says there."""

    def script(row: int, text: Text) -> list[float]:
        return [NO] * 7 if text[:1] not in {(), (4,)} else [NO, NO, NO, NO if len(text) < 2 else 0.0, 1.0, NO, NO]

    (found,) = Beam(3)(Scripted(7, script), sources(1), max_length=3, n_best=3)
    assert [(each.tokens, each.finished) for each in found] == [((4, 4), True), ((4, 4, 4), False)]
