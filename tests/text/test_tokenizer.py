"""The pieces of each kind of tokenizer."""

import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from regard.errors import InputError
from regard.text import END, PAD, START, UNKNOWN, Tokenizer, TokenizerSettings

from .conftest import CORPUS


def test_special_ids() -> None:
    assert (PAD, UNKNOWN, START, END) == (0, 1, 2, 3)


def test_training_text_round_trips(tokenizer: Tokenizer) -> None:
    for line in CORPUS:
        ids = tokenizer.encode(line)
        assert UNKNOWN not in ids
        assert tokenizer.decode(ids) == line


def test_character_and_word_hold_only_what_was_seen() -> None:
    corpus = ["b a, b", "a b"]
    seen = Tokenizer.train(TokenizerSettings("character"), corpus)
    assert seen.pieces(range(seen.size)) == ["<pad>", "<unk>", "<s>", "</s>", "·", "b", "a", ","]
    seen = Tokenizer.train(TokenizerSettings("word"), corpus)
    assert seen.pieces(range(seen.size)) == ["<pad>", "<unk>", "<s>", "</s>", "b", "a", ","]


def test_unknown_is_one_replacement_character(character: Tokenizer, word: Tokenizer) -> None:
    assert character.encode("cžt")[1] == UNKNOWN
    assert character.decode(character.encode("cžt")) == "c\ufffdt"
    assert word.encode("the zebra sat")[1] == UNKNOWN
    assert word.decode(word.encode("the zebra sat")) == "the \ufffd sat"
    assert word.pieces(word.encode("the zebra")) == ["the", "<unk>"]


def test_bpe_knows_every_byte() -> None:
    smallest = Tokenizer.train(TokenizerSettings("bpe", size=260), ["a"])
    assert smallest.size == 260
    assert smallest.decode(smallest.encode("žluťoučký 😀")) == "žluťoučký 😀"
    assert smallest.pieces(smallest.encode("é")) == ["·", r"\xc3", r"\xa9"]


def test_bpe_word_is_the_same_at_the_start_and_inside(bpe: Tokenizer) -> None:
    first = bpe.encode("the")
    assert len(first) == 1
    assert bpe.encode("the the") == first * 2
    assert bpe.decode(bpe.encode(" the")) == " the"


def test_word_splits_and_points_back(word: Tokenizer) -> None:
    text = 'the  cat (or "cat"),\tnot it?'
    pieces = ["the", "cat", "(", "or", '"', "cat", '"', ")", ",", "not", "it", "?"]
    spans = word.offsets(text)
    assert [text[start:end].strip() for start, end in spans] == pieces
    known = word.encode("the cat sat on the mat, not it?)")
    assert word.pieces(known) == ["the", "cat", "sat", "on", "the", "mat", ",", "not", "it", "?", ")"]


@given(st.lists(st.integers(-(2**70), 2**70) | st.integers(0, 401), max_size=31))
@settings(max_examples=100, deadline=None)
def test_decode_never_raises(ids: list[int]) -> None:
    trained = _shared()
    inside = [index for index in ids if 0 <= index < trained.size]
    assert trained.decode(ids) == trained.decode(inside)
    assert len(trained.pieces(inside)) == len(inside)


def test_special_ids_are_dropped_in_decoding(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([START, *ids[:1], PAD, *ids[1:], END, PAD]) == "the cat"
    assert tokenizer.pieces([START, END, PAD, UNKNOWN]) == ["<s>", "</s>", "<pad>", "<unk>"]
    with pytest.raises(ValueError, match="expected 0 to"):
        tokenizer.pieces([tokenizer.size])


def test_labels_of_split_characters(bpe: Tokenizer) -> None:
    assert bpe.pieces(bpe.encode("the cat")) == ["the", "cat"]
    assert bpe.pieces(bpe.encode("नमस्"))[0].startswith("नम")
    russian = Tokenizer.train(TokenizerSettings("bpe", size=401), ["привет мир"] * 5)
    assert russian.pieces(russian.encode("привет мир")) == ["привет", "мир"]
    assert bpe.pieces(bpe.encode("x漢"))[-3:] == [r"\xe6", r"\xbc", r"\xa2"]
    assert bpe.pieces(bpe.encode("a\n\u200b"))[1] == "⏎"


def test_labels_of_hidden_characters() -> None:
    trained = Tokenizer.train(TokenizerSettings("character"), ["a \n\u200b"])
    assert sorted(trained.pieces(trained.encode("a \n\u200b"))) == sorted(["a", "·", "⏎", r"\u200b"])


def test_size_and_minimum_count() -> None:
    corpus = ["a a a b b c", "a b"]
    assert Tokenizer.train(TokenizerSettings("word", size=5), corpus).pieces([4]) == ["a"]
    frequent = Tokenizer.train(TokenizerSettings("word", minimum_count=3), corpus)
    assert frequent.pieces(range(4, frequent.size)) == ["a", "b"]
    with pytest.raises(InputError, match="minimum_count is 7"):
        Tokenizer.train(TokenizerSettings("word", minimum_count=7), corpus)
    often = Tokenizer.train(TokenizerSettings("bpe", minimum_count=2), ["ab ab cd"])
    assert often.size == 260 + 2
    assert Tokenizer.train(TokenizerSettings("bpe", size=263), CORPUS).size == 263


@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe"])
@pytest.mark.parametrize("texts", [[], [""], ["", " \n", "\u2003"]])
def test_no_training_text(kind: str, texts: list[str]) -> None:
    with pytest.raises(InputError, match="training text is empty"):
        Tokenizer.train(TokenizerSettings(kind), iter(texts))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe"])
def test_what_breaks_the_text_breaks_the_training(kind: str) -> None:
    def texts() -> Iterator[str]:
        yield "a b"
        raise InputError("corpus.txt:2: broken")

    with pytest.raises(InputError, match=r"corpus\.txt:2"):
        Tokenizer.train(TokenizerSettings(kind), texts())  # pyright: ignore[reportArgumentType]


def test_one_str_is_not_texts() -> None:
    with pytest.raises(TypeError, match="iterable"):
        Tokenizer.train(TokenizerSettings("character"), "abc")


@pytest.mark.parametrize(
    "given_settings",
    [
        {"kind": "word", "size": 4},
        {"kind": "word", "size": True},
        {"kind": "word", "size": "7"},
        {"kind": "bpe", "size": 259},
        {"kind": "bpe", "dropout": 1.0},
        {"kind": "bpe", "dropout": float("nan")},
        {"kind": "word", "dropout": 0.1},
        {"kind": "word", "minimum_count": 0},
        {"kind": "words"},
    ],
)
def test_settings_out_of_range(given_settings: dict) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        TypeAdapter(TokenizerSettings).validate_python(given_settings)


def test_pickle(tokenizer: Tokenizer) -> None:
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.digest == tokenizer.digest
    assert copy.encode(CORPUS[0]) == tokenizer.encode(CORPUS[0])


_CACHE: list[Tokenizer] = []


def _shared() -> Tokenizer:
    if not _CACHE:
        _CACHE.append(Tokenizer.train(TokenizerSettings("bpe", size=401), CORPUS))
    return _CACHE[0]


@pytest.mark.parametrize("text", ["a <unk> b", r"\<s> </s>", r"<pad> \\<unk>", "x<s> <s>x", r"\ \\ \x"])
def test_row_16_words_between_blanks_may_be_special_names(space: Tokenizer, text: str) -> None:
    """They are words like others, in text and in the vocabulary."""
    trained = Tokenizer.train(TokenizerSettings("space"), [text])
    ids = trained.encode(text)
    assert min(ids) > UNKNOWN
    assert not {START, END, PAD} & set(ids)
    assert trained.decode(ids) == text
    assert trained.pieces(ids) == text.split()
    assert len(space.encode(text)) == len(text.split())


def test_unknown_characters_are_counted_without_white_space():
    tokenizer = Tokenizer.train(TokenizerSettings(kind="character"), ["abc"])
    assert tokenizer.unknown_characters(" a x b yz ") == (3, 5)
    assert tokenizer.unknown_characters(" ") == (0, 0)


def test_characters_of_which_only_bytes_are_entries_are_unknown():
    tokenizer = Tokenizer.train(TokenizerSettings("bpe", 400), ["grün, grün, grün ж"] * 3)
    assert tokenizer.unknown_characters("grün") == (0, 4)
    assert tokenizer.unknown_characters("съ 中 g ж") == (3, 5)
