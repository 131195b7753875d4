"""Labels of tokens are the user's own characters, for every kind of tokenizer."""

import pytest

from regard.data.tokens import label_ids, parts_of, side
from regard.text import Tokenizer, TokenizerSettings
from regard.text.special import END, REPLACEMENT, SPECIAL, START, UNKNOWN

TEXT = "The Größe of Zoë 你好 !"
LEARNED = ["the size of the cat was large !"] * 3
SIZES = {"character": 40, "word": 40, "bpe": 280, "wordpiece-uncased": 60}


def trained(kind) -> Tokenizer:
    return Tokenizer.train(TokenizerSettings(kind=kind, size=SIZES[kind]), LEARNED)


@pytest.mark.parametrize("kind", SIZES)
def test_each_label_is_a_part_of_the_text_even_if_unknown(kind):
    tokenizer = trained(kind)
    ids = [START, *tokenizer.encode(TEXT), END]
    found = side(tokenizer, ids, texts=[TEXT])
    assert len(found.pieces) == len(ids)
    assert (found.pieces[0], found.pieces[-1]) == ("<s>", "</s>")
    for label in found.pieces[1:-1]:
        assert label == "·" or label in TEXT
    assert found.words.labels == ("<s>", *TEXT.split(), "</s>")


def test_a_part_of_a_text_and_a_text_that_goes_on():
    tokenizer = trained("word")
    ids = tokenizer.encode("cat Zoë was large")
    assert side(tokenizer, ids[1:3], texts=["cat Zoë was large"]).pieces == ("Zoë", "was")
    assert side(tokenizer, [*ids, UNKNOWN], texts=["cat Zoë was large"]).pieces[1:] == (
        "Zoë",
        "was",
        "large",
        REPLACEMENT,
    )
    assert side(tokenizer, ids, texts=["another text"]).pieces == ("cat", REPLACEMENT, "was", "large")


def test_two_texts_of_which_the_first_is_empty():
    tokenizer = trained("word")
    ids = [SPECIAL.start, SPECIAL.end, *tokenizer.encode("Zoë"), SPECIAL.end]
    assert side(tokenizer, ids, texts=["", "Zoë"]).pieces == ("<s>", "</s>", "Zoë", "</s>")


def test_bytes_without_a_text_have_the_character_that_they_form():
    tokenizer = trained("bpe")
    ids = tokenizer.encode("ë好")
    assert set(label_ids(tokenizer, ids)) <= {"·", "ë", "好"}
    assert label_ids(tokenizer, ids[-1:]) == [REPLACEMENT]


def test_a_long_word_without_blanks_has_its_tokens_as_parts():
    tokenizer = trained("character")
    text = "a " + "你" * 30
    parts = parts_of(text, tokenizer.offsets(text))
    assert parts.labels == ("a", *"你" * 30)
    assert parts.glued == (False, False, *[True] * 29)
