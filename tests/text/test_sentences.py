"""Sentence boundaries, with their positions kept."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.words import sentence_spans


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("Word", ["Word"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("Dr. Smith met J. R. Brown, e.g. in the U.S. There.", ["Dr. Smith met J. R. Brown, e.g. in the U.S. There."]),
        ("It cost 3.50 dollars. We paid.", ["It cost 3.50 dollars.", "We paid."]),
        ("Wait... he came. Really?! Yes.", ["Wait... he came.", "Really?!", "Yes."]),
        ("all is lower case . the film ends . ok", ["all is lower case .", "the film ends .", "ok"]),
        ("A heading\n\nA text of\ntwo lines.", ["A heading", "A text of\ntwo lines."]),
        ("今日は晴れ。明日は雨！そう。", ["今日は晴れ。", "明日は雨！", "そう。"]),
        ("…", ["…"]),
    ],
)
def test_by_hand(text: str, expected: list[str]):
    assert cut(text) == expected


@given(st.text(alphabet="aB .!?\n\"'。…é1", max_size=60))
def test_row_17_spans_hold_all_but_blanks(text: str):
    spans = sentence_spans(text)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)


def test_ten_thousand_sentences_are_cut_at_once():
    assert len(sentence_spans("It is so. " * 10_000)) == 10_000
    assert len(sentence_spans("word " * 100_000)) == 1
