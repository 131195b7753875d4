"""The pieces of each kind of tokenizer."""

import json
import pickle
import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from regard.errors import InputError
from regard.text import END, PAD, START, UNKNOWN, Tokenizer, TokenizerSettings
from regard.text.tokenizer import VARIANTS, MergeDropout, segment

from .conftest import CORPUS


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
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decode_never_raises(bpe: Tokenizer, ids: list[int]) -> None:
    inside = [index for index in ids if 0 <= index < bpe.size]
    assert bpe.decode(ids) == bpe.decode(inside)
    assert len(bpe.pieces(inside)) == len(inside)


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


@pytest.mark.parametrize("text", ["a <unk> b", r"\<s> </s>", r"<pad> \\<unk>", "x<s> <s>x", r"\ \\ \x"])
def test_words_between_blanks_may_be_special_names(space: Tokenizer, text: str) -> None:
    """They are words like others, in text and in the vocabulary."""
    trained = Tokenizer.train(TokenizerSettings("space"), [text])
    ids = trained.encode(text)
    assert min(ids) > UNKNOWN
    assert not {START, END, PAD} & set(ids)
    assert trained.decode(ids) == text
    assert trained.pieces(ids) == text.split()
    assert len(space.encode(text)) == len(text.split())


def test_unknown_characters_are_counted_without_white_space():
    """Those of which only bytes are entries too."""
    tokenizer = Tokenizer.train(TokenizerSettings(kind="character"), ["abc"])
    assert [tokenizer.unknown(text) for text in (" a x b yz ", " ")] == [(3, 5), (0, 0)]
    tokenizer = Tokenizer.train(TokenizerSettings("bpe", 400), ["grün, grün, grün ж"] * 3)
    assert [tokenizer.unknown(text) for text in ("grün", "съ 中 g ж")] == [(0, 4), (3, 5)]


_TEXT = "the lowest of the lower cats läuft größer, नमस्ते"


def _ranks(tokenizer: Tokenizer, folder: Path) -> dict[tuple[str, str], int]:
    tokenizer.save(folder / "t.json")
    merges = json.loads((folder / "t.json").read_text("utf-8"))["tokenizer"]["model"]["merges"]
    return {(left, right): rank for rank, (left, right) in enumerate(merges)}


def test_same_seed_same_ids(dropping: Tokenizer) -> None:
    fresh = Tokenizer.train(dropping.settings, CORPUS)
    fresh.encode_with_dropout("another text first, the cat", 5)
    for seed in (-3, 0, 2, 2**70):
        assert fresh.encode_with_dropout(_TEXT, seed) == dropping.encode_with_dropout(_TEXT, seed)


def test_seeds_and_texts_differ(dropping: Tokenizer) -> None:
    assert len({tuple(dropping.encode_with_dropout(_TEXT, seed)) for seed in range(11)}) > 7
    firsts = {tuple(dropping.encode_with_dropout("lowest " + other, 3)[:3]) for other in CORPUS}
    assert len(firsts) > 1


@given(text=st.text(max_size=23), seed=st.integers())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decodes_to_the_text(dropping: Tokenizer, text: str, seed: int) -> None:
    assert dropping.decode(dropping.encode_with_dropout(text, seed)) == text


def test_surrogates(dropping: Tokenizer) -> None:
    assert dropping.decode(dropping.encode_with_dropout("a\ud800", 2)) == "a\ufffd"


def test_without_dropout_it_is_encode(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_with_dropout(_TEXT, 7) == tokenizer.encode(_TEXT)


def test_skipping_nothing_is_encode(bpe: Tokenizer, tmp_path: Path) -> None:
    ranks = _ranks(bpe, tmp_path)
    draw = Random(13)
    words = ["".join(draw.choices("thelowrcasnd", k=draw.randint(1, 17))) for _ in range(211)]
    for word in [*words, "lowestlowest", "ooooooo"]:
        pieces = segment("Ġ" + word, ranks, lambda: False)
        assert [piece.removeprefix("Ġ") or "·" for piece in pieces] == bpe.pieces(bpe.encode(word))


def test_skipping_everything_leaves_bytes(bpe: Tokenizer, tmp_path: Path) -> None:
    assert segment("Ġlowest", _ranks(bpe, tmp_path), lambda: True) == list("Ġlowest")


def test_distribution_is_that_of_the_paper() -> None:
    """Against a direct transcription of the paper's algorithm 1, which draws for every merge at every step."""
    ranks = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2, ("a", "bc"): 3, ("abc", "abc"): 4}
    draw = Random(17).random

    def reference() -> tuple[str, ...]:
        pieces = list("abcabc")
        while True:
            pairs = list(pairwise(pieces))
            kept = [(ranks[pair], i) for i, pair in enumerate(pairs) if pair in ranks and draw() >= 0.4]
            if not kept:
                return tuple(pieces)
            _, i = min(kept)
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]

    trials = 1511
    ours = Counter(tuple(segment("abcabc", ranks, lambda: draw() < 0.4)) for _ in range(trials))
    theirs = Counter(reference() for _ in range(trials))
    assert set(ours) | set(theirs) == set(theirs)
    assert all(abs(ours[pieces] - theirs[pieces]) < 5 * (2 * theirs[pieces] + 1) ** 0.5 for pieces in theirs)


def test_a_word_has_many_segmentations() -> None:
    ids = {"a": 4, "b": 5, "c": 6, "ab": 7, "abc": 8}
    dropout = MergeDropout([("a", "b"), ("ab", "c")], ids, 0.5)
    counts = Counter(tuple(dropout.encode(["abc"], "abc", seed)) for seed in range(997))
    assert set(counts) == {(8,), (7, 6), (4, 5, 6)}
    assert VARIANTS >= 16


@pytest.mark.parametrize("long", ["a" * 3001, "漢字" * 503])
def test_long_words_do_not_take_long(long: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("bpe", size=280, dropout=0.1), [long, "x y"])
    begun = time.perf_counter()
    assert trained.decode(trained.encode_with_dropout(long, 2)) == long
    assert time.perf_counter() - begun < 5


_HARD = (
    "\u0301\u200b\u200c\u200d\u200e\u202e\ufeff\ufe0f\ud800\udfff\x00\x85\xa0\u2028\t\r\n  aß.,-'\"漢かعא😀👩🇩🇪🏽नि<s>"
)
_ANY = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"]), st.sampled_from(_HARD)), max_size=29)
_MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_UNICODE_SPACE = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"


def _whole(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@example("\ud83d\ude00 a\ud800")
@example("👩\u200d👩\u200d👧 e\u0301 \u202eעברית\u202c العربية\u200b.")
@example(" \t\n ")
@given(text=_ANY)
@_MANY
def test_offsets_map_back(tokenizer: Tokenizer, text: str) -> None:
    ids, spans = tokenizer.encode(text), tokenizer.offsets(text)
    assert len(ids) == len(spans)
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start <= next_start
        assert end <= next_end
    assert all(0 <= start < end <= len(text) for start, end in spans)
    covered = {position for start, end in spans for position in range(start, end)}
    lost = "".join(character for position, character in enumerate(text) if position not in covered)
    assert re.fullmatch(_UNICODE_SPACE, lost) or not lost
    assert tokenizer.settings.kind in ("word", "space") or not lost


@given(text=_ANY)
@_MANY
def test_bpe_round_trip(bpe: Tokenizer, text: str) -> None:
    ids = bpe.encode(text)
    assert UNKNOWN not in ids
    assert bpe.decode(ids) == _whole(text)


@example(" 漢 字かな 漢字 a漢 b")
@example("मैं पढ़ता हूँ। नमस्\u200dते")
@example("a \u0301b,\u0301 c ,\ufe0fd")
@given(text=_ANY)
@_MANY
def test_word_round_trip_up_to_blanks(text: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("word"), [text, "x"])
    expected = re.sub(_UNICODE_SPACE, " ", _whole(text)).strip(" ")
    assert trained.decode(trained.encode(text)) == expected


@given(text=_ANY.filter(str.strip))
@_MANY
def test_character_round_trip(text: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("character"), [text])
    assert trained.decode(trained.encode(text)) == _whole(text)
    assert trained.offsets(text) == [(position, position + 1) for position in range(len(text))]


@given(text=_ANY)
@_MANY
def test_spans_hold_the_text_of_their_pieces(bpe: Tokenizer, text: str) -> None:
    given_text = _whole(text)
    ids, spans = bpe.encode(text), bpe.offsets(text)
    for index, (start, end) in zip(ids, spans, strict=True):
        found = bpe.decode([index])
        if "\ufffd" not in found and found.strip():
            assert found.strip() in given_text[start:end]


@given(text=_ANY)
@_MANY
def test_labels_are_one_visible_line(tokenizer: Tokenizer, text: str) -> None:
    labels = tokenizer.pieces(tokenizer.encode(text))
    assert all(label and label.strip() and len(label.splitlines()) == 1 for label in labels)


def test_surrogate_is_one_character(bpe: Tokenizer) -> None:
    assert bpe.offsets("a\ud800b") == bpe.offsets("a\ufffdb")
    assert bpe.decode(bpe.encode("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize("text", ["<s>", "</s> <s>", "<pad><unk>", "a <s> b", "[MASK]", "▁ Ġ ##s"])
def test_special_names_are_plain_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert START not in ids
    assert all(index > START or index == UNKNOWN for index in ids)
    assert len(ids) >= len(text.split())
    if tokenizer.settings.kind == "bpe":
        assert tokenizer.decode(ids) == text
        assert UNKNOWN not in ids


def test_special_names_in_training_text_are_plain_text() -> None:
    corpus = ["<s> <pad> </s> <unk>"] * 11
    for kind in ("character", "word", "space", "bpe"):
        trained = Tokenizer.train(TokenizerSettings(kind), corpus)
        ids = trained.encode(corpus[0])
        assert min(ids) > 3
        assert trained.decode(ids) == corpus[0]
