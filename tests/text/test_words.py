import pytest

from regard.text import Tokenizer, TokenizerSettings
from regard.text.words import word_indices

TEXT = "  ein  Mädchen läuft. "


def test_by_hand():
    spans = [(0, 5), (5, 9), (9, 14), (14, 19), (19, 20), (20, 21), (21, 22)]
    assert word_indices(" a bc", [(0, 2), (2, 4), (4, 5)]) == [0, 1, 1]
    assert word_indices(TEXT, spans) == [0, 1, 1, 2, 2, 2, 2]
    assert word_indices("", []) == []


@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe"])
@pytest.mark.parametrize("text", [TEXT, "ein", "日本 語", "x\u3000y", "👩‍👩‍👧 ja"])
def test_every_word_has_a_piece(kind, text: str):
    tokenizer = Tokenizer.train(TokenizerSettings(kind), [TEXT, "ein Mädchen"] * 3)
    found = word_indices(text, tokenizer.offsets(text))
    assert len(found) == len(tokenizer.encode(text))
    assert sorted(set(found)) == list(range(len(text.split())))
    assert found == sorted(found)
