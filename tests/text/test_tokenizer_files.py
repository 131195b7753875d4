"""Tokenizers of other libraries, with the pieces that SentencePiece 0.2.3 and subword-nmt 0.3.8 gave."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.errors import InputError
from regard.text import SpecialTokens, Tokenizer, TokenizerSettings
from tests.hub import spm

UNIGRAM = {"▁a": -1.5, "▁": -2.0, "b": -2.5, "ab": -3.0, "▁ba": -3.0, "a": -4.0, "c": -4.5, "abc": -5.25}
BYTE_PAIRS = {"ab": -1.0, "▁a": -2.0, "▁ab": -3.0, "abc": -4.0, "▁": -5.0, "a": -6.0, "b": -7.0, "c": -8.0}
BYTES = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
PREPARING = {3: 1, 4: 1, 5: 1}
TEXTS = ["abc ba", "  ba   cab ", "abd é b", "<s> a</s>", "cAbab"]
CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nn e\nlo w\n"


def make(pieces: dict[str, float], more=(), **options: Any) -> bytes:
    every = [*spm.SPECIAL, *more, *((piece, score, 1) for piece, score in pieces.items())]
    return spm.model(every, preparing=PREPARING, **options)


def load(path: Path, content: bytes | str, texts: list[str] | None = None) -> Tokenizer:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    tokenizer = Tokenizer.train(TokenizerSettings(file=str(path)), texts or ["a"])
    tokenizer.save(path.with_name("copy.json"))
    path.unlink()
    return Tokenizer.load(path.with_name("copy.json"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            make(UNIGRAM, table={"A": "a"}),
            ["▁ abc ▁ba", "▁ba ▁ c ab", "▁a b d ▁ é ▁ b", "▁ <s> ▁a </s>", "▁ c ab ab"],
        ),
        (
            make(BYTE_PAIRS, training={3: 2}),
            ["▁ab c ▁ b a", "▁ b a ▁ c ab", "▁ab d ▁ é ▁ b", "▁ <s> ▁a </s>", "▁ c A b ab"],
        ),
        (
            make(BYTE_PAIRS, BYTES, training={3: 2, 35: 1}),
            [
                "▁ab c ▁ b a",
                "▁ b a ▁ c ab",
                "▁ab <0x64> ▁ <0xC3> <0xA9> ▁ b",
                "▁ <0x3C> <0x73> <0x3E> ▁a <0x3C> <0x2F> <0x73> <0x3E>",
                "▁ c <0x41> b ab",
            ],
        ),
    ],
    ids=["unigram", "bpe", "bytes"],
)
def test_pieces_are_those_of_sentencepiece(tmp_path: Path, content: bytes, expected: list[str]):
    tokenizer = load(tmp_path / "spm.model", content)
    entries = list(tokenizer.vocabulary)
    for text, pieces in zip(TEXTS, expected, strict=True):
        ids = tokenizer.encode(text)
        unknown = [piece if piece in entries else "<unk>" for piece in pieces.split(" ")]
        special = [piece if piece not in ("<s>", "</s>") else "<unk>" for piece in unknown]
        assert [entries[index] for index in ids] == special
    assert tokenizer.special == SpecialTokens(tokenizer.size - 1, 0, 1, 2)
    assert tokenizer.decode(tokenizer.encode(" abc  ba ")) == "abc ba"
    assert tokenizer.decode(tokenizer.encode("abé")) == ("ab\ufffd" if len(entries) < 256 else "abé")


def test_pieces_are_those_of_subword_nmt(tmp_path: Path):
    texts = ["low lower newer", " slow  lown\té"]
    tokenizer = load(tmp_path / "codes.bpe", CODES, texts)
    entries = list(tokenizer.vocabulary)
    pieces = [[entries[index] for index in tokenizer.encode(text)] for text in texts]
    marked = [
        [piece.removesuffix("</w>") + ("" if piece.endswith("</w>") else "@@") for piece in row] for row in pieces
    ]
    assert marked == [["low", "low@@", "er", "ne@@", "w@@", "er"], ["s@@", "low", "low@@", "n@@", "\t@@", "é"]]
    assert tokenizer.decode(tokenizer.encode(texts[1])) == "slow lown\té"
    assert tokenizer.pieces(tokenizer.encode("lower")) == ["low", "er"]
    assert tokenizer.encode("é low")[0] != tokenizer.special.unknown == tokenizer.encode("z")[0]
    assert tokenizer.special == SpecialTokens()


def quick(*special: str, unknown: str | None, added: str = "") -> str:
    names = {name: index for index, name in enumerate(special)}
    pieces = {piece: len(names) + index for index, piece in enumerate("abc")}
    backend = Backend(models.BPE(names | pieces | {"ab": len(names) + 3}, [("a", "b")], unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.add_special_tokens([*special])
    backend.add_tokens([AddedToken(added)] if added else [])
    return backend.to_str()


def test_a_tokenizer_of_the_tokenizers_library(tmp_path: Path):
    tokenizer = load(tmp_path / "tokenizer.json", quick("[UNK]", "[PAD]", "[MASK]", unknown="[UNK]"))
    assert tokenizer.encode("cab d") == [5, 6, 0]
    assert tokenizer.decode([5, 6, 0]) == "c ab \ufffd"  # without a decoder, as in that library
    assert tokenizer.special == SpecialTokens(1, 0, 7, 8, 2)
    assert [*tokenizer.vocabulary][7:] == ["<s>", "</s>"]


def test_bytes_need_no_unknown_token(tmp_path: Path):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend = Backend(models.BPE({letter: index for index, letter in enumerate(sorted(alphabet))}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = load(tmp_path / "tokenizer.json", backend.to_str())
    assert tokenizer.decode(tokenizer.encode("é ☯")) == "é ☯"
    assert (tokenizer.size, tokenizer.special) == (260, SpecialTokens(256, 257, 258, 259))


def test_the_tokenizer_of_another_run(tmp_path: Path):
    original = Tokenizer.train(TokenizerSettings("word"), ["a b a"])
    copy = load(tmp_path / "tokenizer.json", original.content)
    assert (copy.content, copy.settings.kind) == (original.content, "word")


UNNAMED = [("<s>", 0.0, 3), ("a", -1.0, 1)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("some text", "is no tokenizer file; expected a SentencePiece model, a tokenizer.json or codes"),
        ("{}", "has no model; expected a SentencePiece model, a tokenizer.json"),
        (spm.model(UNNAMED, preparing=PREPARING), "has no unknown piece; train it with an unk_id"),
        (make(UNIGRAM, [("<sep>", 0.0, 4)]), "has pieces that its user defined"),
        (make(UNIGRAM, training={3: 4}), "is a model of words or characters, not of type unigram or bpe"),
        (make(UNIGRAM, training={24: 1}), "was trained with treat_whitespace_as_suffix"),
        (make(BYTE_PAIRS, [("x", 0.0, 5)], training={3: 2}), "has unused pieces among byte pairs"),
        (quick(unknown=None), "has no unknown token; train it with unk_token"),
        (quick("[UNK]", unknown="[UNK]", added="@user"), "has added tokens that are not special, such as '@user'"),
        (CODES.replace("0.2", "0.1"), r"has codes of another version \(#version: 0.1\); expected 0.2"),
        ("#version: 0.2\nl o w\n", "line 2 is 'l o w', not two pieces"),
        ("#version: 0.2\nĠ t\n", "is a merges.txt of the tokenizers library"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes | str, expected: str):
    with pytest.raises(InputError, match=f"file: {expected}"):
        load(tmp_path / "file", content)


def test_a_file_has_no_other_kind():
    with pytest.raises(InputError, match=r"has a file and the kind bpe: .* such as \{file: spm.model\}"):
        TokenizerSettings("bpe", file="spm.model")
    with pytest.raises(InputError, match="kind is missing: choose one such as bpe, or set file"):
        TokenizerSettings()


def test_a_tokenizer_made_here_has_no_new_key():
    content = Tokenizer.train(TokenizerSettings("word"), ["a"]).content
    assert json.loads(content)["settings"].keys() == {"kind", "size", "dropout", "minimum_count"}
