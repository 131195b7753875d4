"""The word of each token, for every tokenizer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokens import side
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END, START, UNKNOWN

TEXTS = ["the warm mat sat on the warmest mat", "注意 機制 كتاب मुझे"]
KINDS = ("character", "bpe", "word", "space", "wordpiece")
TOKENIZERS = {kind: Tokenizer.train(TokenizerSettings(kind, size=340), TEXTS) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_what_blanks_separate(kind: str):
    tokenizer = TOKENIZERS[kind]
    found = side(tokenizer, [START, *tokenizer.encode(TEXTS[0]), END])
    assert found.words.labels == ("<s>", *TEXTS[0].split(), "</s>")
    assert list(found.words.indices) == sorted(found.words.indices)
    assert set(found.words.indices) == set(range(len(found.words.labels)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(st.text(max_size=13), st.lists(st.integers(0, 300), max_size=7))
def test_every_piece_has_a_word_whatever_the_text_or_ids(kind: str, text: str, more: list[int]):
    tokenizer = TOKENIZERS[kind]
    ids = [*tokenizer.encode(text), *(index % tokenizer.size for index in more)]
    found = side(tokenizer, ids)
    assert len(found.words.indices) == len(found.pieces) == len(ids)
    assert list(found.words.indices) == sorted(found.words.indices)
    assert set(found.words.indices) == set(range(len(found.words.labels)))
    assert all(found.words.labels)


def test_words_that_follow_the_vocabulary_and_unknown_ones():
    tokenizer = TOKENIZERS["space"]
    found = side(tokenizer, [tokenizer.size, UNKNOWN, END], ["Zanzibar"])
    assert found.pieces == ("Zanzibar", "\ufffd", "</s>")
    assert found.words == (("Zanzibar", "\ufffd", "</s>"), (0, 1, 2))
