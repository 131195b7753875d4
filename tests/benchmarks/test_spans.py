"""Answers by rule: the choice of a sentence and of words, and their scores."""

from math import log

import pytest

from benchmarks.spans import Rarity, chosen, figures, sentences, spans
from regard.data.squad import Answer, Question

CONTEXT = "The old mill was built by Anna Berg in 1871. It was sold again. The mill has 3 floors."


def asked(question: str, *answers: str) -> Question:
    return Question(question, CONTEXT, tuple(Answer(each, CONTEXT.index(each)) for each in answers), "x:1")


def rarity() -> Rarity:
    return Rarity([CONTEXT, "in the old town by", "was it in the town by it?", "by the sea in"])


def test_rarity_by_hand():
    known = rarity()
    assert known["the"] == 0
    assert known["old"] == pytest.approx(log(4 / 2))
    assert known["mill"] == known["never read"] == pytest.approx(log(4))


def test_the_sentence_that_shares_the_rarest_words():
    found = sentences(asked("Who built the mill?"), rarity())
    assert [CONTEXT[start:end][:9] for _, start, end in found] == ["The old m", "It was so", "The mill "]
    assert [score for score, _, _ in found] == pytest.approx([2 * log(4), 0, log(4)])


@pytest.mark.parametrize(
    ("question", "longest", "more", "answer"),
    [
        ("When was the mill built by Anna Berg?", 3, 9.0, "1871"),
        ("Who built the mill by 1871?", 2, 9.0, "Anna Berg"),
        ("How many floors has the mill?", 1, 9.0, "3"),
        ("What has the mill?", 1, 0.0, "3"),
        ("the old mill was built by anna berg in 1871 it sold again has 3 floors", 2, 9.0, ""),
    ],
)
def test_the_words_that_are_chosen(question: str, longest: int, more: float, answer: str):
    start, end = chosen(spans(asked(question), rarity()), longest, more)
    assert CONTEXT[start:end] == answer


def test_spans_have_no_word_of_the_question_and_no_mark():
    found = spans(asked("Who built the mill?"), rarity())
    texts = {CONTEXT[each.start : each.end] for each in found}
    assert {"Anna", "Anna Berg", "Berg in 1871"} <= texts
    assert not any(mark in text.split() or mark in text for text in texts for mark in ("mill", ".", "The"))
    for each in found:
        assert each.words == len(CONTEXT[each.start : each.end].split())


def test_figures_by_hand():
    questions = [asked("a?", "Anna Berg", "Anna"), asked("b?", "1871"), asked("c?", "It")]
    places = [(CONTEXT.index(text), CONTEXT.index(text) + len(text)) for text in ("Anna", "in 1871", "3")]
    assert figures(questions, places) == pytest.approx({"exact-match": 100 / 3, "f1": 100 * (1 + 2 / 3 + 0) / 3})
