"""Constraints on outputs, with words that only their source has too."""

from pathlib import Path

import pytest

import regard
from regard.data.pairs import Pair
from regard.errors import InputError
from regard.tasks.seq2seq.run import Seq2SeqRun
from tests.runs.test_load import SETTINGS, make

POINTER = SETTINGS.replace("target: {kind: character}", "shared: true").replace(
    "{name: luong, embedding: 5, width: 7}", "{name: pointer-generator, embedding: 5, width: 7, attention: 3}"
)
LONG = POINTER.replace("length_extra: 2", "length_extra: 60")


@pytest.fixture
def run(tmp_path: Path) -> Seq2SeqRun:
    """A model that copies, and knows the letters from a to g."""
    return regard.load(make(tmp_path, settings=LONG)[0])


def test_a_prefix_of_words_that_each_source_has_for_itself(run: Seq2SeqRun):
    texts = ["axb", "ayxccc", "zabx"]
    for beam in (1, 3):
        assert [each.text[:2] for each in run.predict(texts, beam=beam, prefix="bx")] == ["bx"] * 3
    drawn = run.predict(texts, temperature=1.0, n_best=2, prefix="bx")
    assert all(each.text.startswith("bx") for one in drawn for each in (one, *one.alternatives))


def test_phrases_of_words_that_each_source_has_for_itself(run: Seq2SeqRun):
    """In an order of lengths that is not that of the texts, in which they are searched."""
    texts = ["ayxccc", "xb", "zabx"]
    found = run.predict(texts, beam=3, phrases=["xa", "b"])
    for text, each in zip(texts, found, strict=True):
        assert "xa" in each.text, text
        assert "b" in each.text, text
    scores = run.score([Pair(text, each.text, "x:1") for text, each in zip(texts, found, strict=True)])
    for each, tokens in zip(found, scores, strict=True):
        assert each.score == pytest.approx(sum(tokens if each.finished else tokens[:-1]), rel=1e-4)


@pytest.mark.parametrize("what", [{"prefix": "x"}, {"phrases": ["ax"], "beam": 3}])
def test_a_word_that_neither_the_vocabulary_nor_the_source_has(run: Seq2SeqRun, what: dict):
    with pytest.raises(
        InputError, match=r"^text 2: '\w+' has pieces that are neither in the vocabulary nor in the text"
    ):
        run.predict(["ax", "ay"], **what)
