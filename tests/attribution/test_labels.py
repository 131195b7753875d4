"""The label and the word of each token, for every tokenizer, and words that only one source has."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokens import Tokenizers, label_ids, parts_of, replace_absent_copies, side
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import END, REPLACEMENT, SPECIAL, START, UNKNOWN

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


SEVERAL = ["the warm mat sat on the warmest mat", "注意 機制 كتاب मुझे"]
KINDS = ("character", "bpe", "word", "space", "wordpiece")
TOKENIZERS = {kind: Tokenizer.train(TokenizerSettings(kind, size=340), SEVERAL) for kind in KINDS}


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


ONE = Tokenizer.train(TokenizerSettings("word"), ["the cat sat on the mat"])
COPYING, PLAIN = Tokenizers(ONE, ONE, copying=True), Tokenizers(ONE, ONE)
SOURCE = "the zebra sat, the gnu on the zebra"


def test_a_source_s_own_words_have_ids_in_the_order_of_their_places():
    the, sat, on = (ONE.encode(word)[0] for word in ("the", "sat", "on"))
    zebra, comma, gnu = range(ONE.size, ONE.size + 3)
    assert COPYING.own_words(SOURCE) == ["zebra", ", ", "gnu"]
    assert COPYING.source_ids(SOURCE) == [the, zebra, sat, comma, the, gnu, on, the, zebra]
    assert COPYING.target_ids("gnu sat on dog zebra", SOURCE) == [gnu, sat, on, UNKNOWN, zebra]
    assert PLAIN.source_ids(SOURCE) == ONE.encode(SOURCE)
    assert PLAIN.target_ids("gnu sat", SOURCE) == [UNKNOWN, sat]
    assert PLAIN.own_words(SOURCE) == []


def test_what_was_written_is_read_back():
    ids = COPYING.target_ids("the gnu sat, the zebra sat", SOURCE)
    assert COPYING.text(ids, SOURCE) == "the gnu sat, the zebra sat"
    assert COPYING.target_pieces([*ids, END], SOURCE) == ["the", "gnu", "sat", ",", "the", "zebra", "sat", "</s>"]
    assert COPYING.source_pieces(COPYING.source_ids(SOURCE)[:2], SOURCE) == ["the", "zebra"]
    assert PLAIN.text(PLAIN.target_ids("the gnu", SOURCE), SOURCE) == "the \ufffd"


def test_an_own_word_that_was_cut_off_is_unknown():
    source, target = COPYING.source_ids(SOURCE)[:3], COPYING.target_ids("zebra gnu cat", SOURCE)
    assert replace_absent_copies(target, source, ONE) == [ONE.size, UNKNOWN, ONE.encode("cat")[0]]
