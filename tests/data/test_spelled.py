"""Words as characters, by the published convention, and texts as parts of them."""

import pytest

from regard.data.batches import SpelledTexts, spell_vocabulary
from regard.errors import InputError
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import IGNORED
from regard.text.words import TEXT_BEGINS, TEXT_ENDS, spell, spell_mark

TOKENIZER = Tokenizer.train(TokenizerSettings("word"), ['"b, a" b a c'])


def test_characters_are_those_of_the_published_models():
    """Bytes, marks 258 and 259 around them, filler 260, marks 256 and 257 for whole texts; all shifted by one."""
    assert spell("Aé") == [259, 66, 196, 170, 260] + [261] * 45
    assert spell("") == [259, 260] + [261] * 48
    assert spell("x" * 60) == [259] + [121] * 48 + [260]
    assert spell_mark(TEXT_BEGINS) == [259, 257, 260] + [261] * 47
    assert spell_mark(TEXT_ENDS) == [259, 258, 260] + [261] * 47


def test_a_long_word_is_cut_between_bytes():
    assert spell("ééé", 5) == [259, 196, 170, 196, 260]


def test_each_word_is_told_once_from_each_side():
    texts = SpelledTexts(TOKENIZER, ["a b c", "", "a a a a"], 7, 2)
    batch = texts.batch(range(len(texts.parts)))
    a, b, c = (TOKENIZER.encode(word)[0] for word in "abc")
    wanted = [[2, a, b], [b, c, 3], [2, 3, IGNORED], [2, a, a], [a, a, a], [a, 3, IGNORED]]
    assert batch.tokens.tolist() == wanted
    assert batch.lengths.tolist() == texts.sides[:, 0].tolist() == [3, 3, 2, 3, 3, 2]
    assert batch.characters.shape == (6, 3, 7)
    assert batch.characters[1].tolist() == [spell("b", 7), spell("c", 7), spell_mark(TEXT_ENDS, 7)]
    assert not batch.characters[2, 2].any()


def test_an_unknown_word_keeps_its_characters():
    batch = SpelledTexts(TOKENIZER, ["zzz"], 7, 5).batch([0])
    assert batch.tokens.tolist() == [[2, 1, 3]]
    assert batch.characters[0, 1].tolist() == spell("zzz", 7)


def test_no_text():
    with pytest.raises(InputError, match="there is no text"):
        SpelledTexts(TOKENIZER, [], 7, 2)


def test_a_vocabulary():
    found = spell_vocabulary(TOKENIZER, 7)
    assert found.shape == (TOKENIZER.size, 7)
    assert not found[0].any()
    assert found[2].tolist() == spell_mark(TEXT_BEGINS, 7)
    assert found[TOKENIZER.encode("b")[0]].tolist() == spell("b", 7)
    assert found[TOKENIZER.encode("b, a")[1]].tolist() == spell(",", 7)
