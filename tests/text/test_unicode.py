"""Any text can be encoded, and every id points back to where it came from."""

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regard.text import START, UNKNOWN, Tokenizer, TokenizerSettings

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
def test_row_17_offsets_map_back(tokenizer: Tokenizer, text: str) -> None:
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
def test_row_17_bpe_round_trip(bpe: Tokenizer, text: str) -> None:
    ids = bpe.encode(text)
    assert UNKNOWN not in ids
    assert bpe.decode(ids) == _whole(text)


@example(" 漢 字かな 漢字 a漢 b")
@example("मैं पढ़ता हूँ। नमस्\u200dते")
@example("a \u0301b,\u0301 c ,\ufe0fd")
@given(text=_ANY)
@_MANY
def test_row_17_word_round_trip_up_to_blanks(text: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("word"), [text, "x"])
    expected = re.sub(_UNICODE_SPACE, " ", _whole(text)).strip(" ")
    assert trained.decode(trained.encode(text)) == expected


@given(text=_ANY.filter(str.strip))
@_MANY
def test_row_17_character_round_trip(text: str) -> None:
    trained = Tokenizer.train(TokenizerSettings("character"), [text])
    assert trained.decode(trained.encode(text)) == _whole(text)
    assert trained.offsets(text) == [(position, position + 1) for position in range(len(text))]


@given(text=_ANY)
@_MANY
def test_row_17_spans_hold_the_text_of_their_pieces(bpe: Tokenizer, text: str) -> None:
    given_text = _whole(text)
    ids, spans = bpe.encode(text), bpe.offsets(text)
    for index, (start, end) in zip(ids, spans, strict=True):
        found = bpe.decode([index])
        if "\ufffd" not in found and found.strip():
            assert found.strip() in given_text[start:end]


@given(text=_ANY)
@_MANY
def test_row_17_labels_are_one_visible_line(tokenizer: Tokenizer, text: str) -> None:
    labels = tokenizer.pieces(tokenizer.encode(text))
    assert all(label and label.strip() and len(label.splitlines()) == 1 for label in labels)


def test_row_17_surrogate_is_one_character(bpe: Tokenizer) -> None:
    assert bpe.offsets("a\ud800b") == bpe.offsets("a\ufffdb")
    assert bpe.decode(bpe.encode("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize("text", ["<s>", "</s> <s>", "<pad><unk>", "a <s> b", "[MASK]", "▁ Ġ ##s"])
def test_row_16_special_names_are_plain_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert START not in ids
    assert all(index > START or index == UNKNOWN for index in ids)
    assert len(ids) >= len(text.split())
    if tokenizer.settings.kind == "bpe":
        assert tokenizer.decode(ids) == text
        assert UNKNOWN not in ids


def test_row_16_special_names_in_training_text_are_plain_text() -> None:
    corpus = ["<s> <pad> </s> <unk>"] * 11
    for kind in ("character", "word", "space", "bpe"):
        trained = Tokenizer.train(TokenizerSettings(kind), corpus)
        ids = trained.encode(corpus[0])
        assert min(ids) > 3
        assert trained.decode(ids) == corpus[0]
