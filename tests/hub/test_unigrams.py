"""Pieces of published translation models: text is cut and numbered as by their own tokenizer."""

import importlib
import importlib.util
import io
import random
import unicodedata
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.hub.formats import marian_files
from regard.hub.formats import sentencepiece as sentence_pieces
from regard.hub.formats.folder import Folder
from regard.text import Tokenizer, TokenizerSettings
from regard.text.character_table import CharacterTable
from regard.text.special import NAMES
from regard.text.unigram import Pieces
from tests.hub import spm
from tests.hub.published import quiet
from tests.hub.translator import SOURCE, TABLE, tokenizers

TEXTS = [
    "the cat sat on the mat.",
    "  two   blanks\tand　wide ones  ",
    "Ａ ﬁne … café",
    "",
    " ",
    "日",
    "日本 🙂🙂 x",
    "the日the",
    ">>de<< the cat",
    ">>de<<",
    "the >>de<< cat",
    "thththth that the",
    "unused ▁the ▁",
    "▁",
    "▁a▁▁b▁ ",
    "cafe\u0301 \u0301a",
    "x\0y\u200bz",
    "line\nbreak\r\n",
    "q" * 31,
]
SPECIAL = ["<s> and </s> and <pad> and <unk>", "</s>", ">>fr<< the cat"]
"""What looks like something special is text here, and not there."""


def pair(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Both tokenizers of a published model."""
    size = tokenizers(folder)
    return marian_files.read_tokenizers(Folder(folder), size, size - 1, (0,))


@pytest.mark.skipif(importlib.util.find_spec("sentencepiece") is None, reason="sentencepiece is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", TEXTS)
def test_text_is_cut_as_theirs(text: str, tmp_path: Path):
    source, target = pair(tmp_path)
    theirs = quiet().MarianTokenizer.from_pretrained(tmp_path)
    for ours, more in ((source, {"text": text}), (target, {"text_target": text})):
        ids = theirs(**more).input_ids
        assert ours.encode(text) == ids[:-1]
        known = [index for index in ours.encode(text) if index != ours.special.unknown]
        again = theirs.decode(known, use_source_tokenizer=ours is source)
        assert ours.decode(known) == again


def entries(tokenizer: Tokenizer, text: str) -> list[str]:
    names = list(tokenizer.vocabulary)
    return [names[index] for index in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat", ["▁the", "▁c", "at"]),
        ("  the   cat  ", ["▁the", "▁c", "at"]),  # blanks are collapsed
        ("ﬁ", ["▁", "fi"]),  # the table writes it as two letters
        ("the\tcat…", ["▁the", "▁c", "at", ".", ".", "."]),
        ("thth", ["▁", "<unk>", "<unk>"]),  # a piece that the vocabulary lacks
        ("日", ["▁", "日"]),  # an entry that is no piece
        ("日本", ["▁", "<unk>"]),  # characters in a row that no piece has
        (">>de<< the", [">>de<<", "▁the"]),
        ("unused", ["▁", "u", "n", "u", "s", "e", "d"]),  # a piece that is not in use
        ("", []),
    ],
)
def test_what_pieces_become(text: str, expected: list[str], tmp_path: Path):
    assert entries(pair(tmp_path)[0], text) == expected


@pytest.mark.parametrize("text", [*TEXTS, *SPECIAL])
def test_spans_lie_in_the_text(text: str, tmp_path: Path):
    source, _ = pair(tmp_path)
    spans = source.offsets(text)
    assert len(spans) == len(source.encode(text))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
    special = source.special
    assert not {special.start, special.end} & {*source.encode(text)}


def test_a_tokenizer_is_kept(tmp_path: Path):
    source, target = pair(tmp_path)
    for tokenizer in (source, target):
        tokenizer.save(tmp_path / "kept.json")
        again = Tokenizer.load(tmp_path / "kept.json")
        assert again.digest == tokenizer.digest
        assert again.encode(TEXTS[0]) == tokenizer.encode(TEXTS[0])
    text = "the cat sat on the mat."
    assert source.decode(source.encode(text)) == text
    assert source.pieces(source.encode("the cat日本")) == ["the", "c", "at", "<unk>"]
    assert source.vocabulary == target.vocabulary


def test_a_kept_tokenizer_that_was_changed(tmp_path: Path):
    source, _ = pair(tmp_path)
    source.save(tmp_path / "kept.json")
    text = (tmp_path / "kept.json").read_text(encoding="utf-8")
    for old, new in (
        ('"prefix": true', '"prefix": 3'),
        ('"pieces": [', '"pieces": [7, '),
        ('"characters": "', '"characters": "A'),
    ):
        (tmp_path / "broken.json").write_text(text.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(InputError, match="broken tokenizer file"):
            Tokenizer.load(tmp_path / "broken.json")


def test_there_and_back_is_the_same(tmp_path: Path):
    tokenizers(tmp_path)
    for name in ("source.spm", "target.spm"):
        pieces = sentence_pieces.read(Folder(tmp_path), name)
        (tmp_path / "again.spm").write_bytes(sentence_pieces.write(pieces))
        assert sentence_pieces.read(Folder(tmp_path), "again.spm") == pieces
    assert [*sentence_pieces.read(Folder(tmp_path), "source.spm").scores] == SOURCE


def test_a_text_without_a_blank_in_front(tmp_path: Path):
    (tmp_path / "a.spm").write_bytes(spm.model([("a", -1.0, 1), ("▁", -2.0, 1)], preparing={3: 0, 4: 0}))
    pieces = sentence_pieces.read(Folder(tmp_path), "a.spm")
    assert (pieces.prefix, pieces.collapse) == (False, False)
    assert pieces.backend().encode("a  a").tokens == ["a", "▁", "▁", "a"]


def test_kind_unigram_is_not_trained():
    with pytest.raises(InputError, match="read from published models and not trained"):
        Tokenizer.train(TokenizerSettings("unigram"), ["a text"])


def test_entries_alone_make_pieces():
    tokenizer = Tokenizer.of(TokenizerSettings("unigram"), {name: i for i, name in enumerate([*NAMES, "▁a", "b"])})
    assert tokenizer.encode("ab") == [4, 5]
    with pytest.raises(ValueError, match="no pieces"):
        Pieces({})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (spm.model([("a", -1.0, 1)])[:-3], "it ends at byte"),
        (spm.model([("a", -1.0, 1)])[:12], "does not say how text is prepared; is it cut off"),
        (b"\x0a\x05\x0a", "inside a field"),
        (b"\x0b\x00", "begins no field"),
        (b"\x08" + b"\xff" * 12, "begins no whole number"),
        (spm.field(1, 7), "a field is a number where bytes should be"),
        (spm.field(1, spm.field(2, 1)), "no number of 4 bytes"),
        (spm.field(1, spm.field(1, b"\xff")), "utf-8"),
        (spm.model([]), "it has no pieces"),
        (spm.model([("", -1.0, 1)]), "a piece is ''"),
        (spm.model([("a", -1.0, 1), ("a", -2.0, 1)]), "piece 'a' is there twice"),
        (spm.model([("a", -1.0, 4)]), "piece 'a' is one defined by its user"),
        (spm.model([("<0x00>", -1.0, 6)]), "is one of single bytes"),
        (spm.model([("a", -1.0, 1)], training={3: 2}), "it segments text otherwise than by the unigram model"),
        (spm.model([("a", -1.0, 1)], training={24: 1}), "its blanks stand behind words"),
        (spm.model([("a", -1.0, 1)], training={35: 1}), "single bytes stand for what is unknown"),
        (spm.model([("a", -1.0, 1)], preparing={5: 0}), "its blanks are not written as ▁"),
        (spm.model([("a", -1.0, 1)]) + spm.field(5, spm.field(2, b"abc")), "what is shown is another text"),
        (spm.model([("a", -1.0, 1)]) + spm.field(3, spm.field(2, b"abc")), "its table of characters cannot be read"),
        (b"<!DOCTYPE html><html>", "is an HTML page"),
        (b"plain text", "is plain text; expected the file itself"),
    ],
)
def test_files_that_are_not_read(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "source.spm").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        sentence_pieces.read(Folder(tmp_path), "source.spm")
    assert str(tmp_path / "source.spm") in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_characters_of_the_test_are_read():
    table = Pieces({"a": -1.0}, spm.characters(TABLE)).table()
    assert table.replace("Ａﬁ…é b").text == "Afi...e b"


COMPOSED = {"e\u0301": "é", "ｶ": "カ", "ｶﾞ": "ガ", "ﾞ": "\u3099", "\u200b": " ", "x\u0301y": "z"}
"""Sequences of which one begins another, as SentencePiece's own tables have them."""


@pytest.mark.parametrize(
    ("text", "expected", "spans"),
    [
        ("e\u0301\u0323", "é\u0323", [(0, 2), (2, 3)]),  # one grapheme, whose beginning alone is an entry
        ("ｶﾞｶ", "ガカ", [(0, 2), (2, 3)]),
        ("aｶﾞﾞb", "aガ\u3099b", [(0, 1), (1, 3), (3, 4), (4, 5)]),
        ("x\u0301", "x\u0301", [(0, 1), (1, 2)]),  # an entry that is cut off is none
        ("x\u0301y e", "z e", [(0, 3), (3, 4), (4, 5)]),
        ("the cat e\u0301", "the cat é", None),
    ],
)
def test_the_longest_entry_of_the_characters_is_replaced(text: str, expected: str, spans: list[tuple[int, int]] | None):
    found = CharacterTable(spm.characters(COMPOSED)).replace(text)
    assert found.text == expected
    assert len(found.spans) == len(expected)
    assert spans is None or found.spans == spans


def test_an_entry_of_plain_letters_is_replaced():
    table = CharacterTable(spm.characters({"ab": "c", "\u0301": ""}))
    assert table.replace("aba b ab\u0301").text == "ca b c"


SCRIPTS = [range(32, 127), range(0xC0, 0x250), range(0x300, 0x370), range(0x370, 0x530), range(0x600, 0x640)]
SCRIPTS += [range(0x900, 0x980), range(0xE00, 0xE60), range(0x1100, 0x1200), range(0x1E00, 0x2200)]
SCRIPTS += [range(0x3040, 0x3100), range(0xAC00, 0xAC80), range(0xFF00, 0xFFE0), range(0x1D400, 0x1D440)]


@pytest.mark.skipif(importlib.util.find_spec("sentencepiece") is None, reason="sentencepiece is not installed")
@pytest.mark.filterwarnings("ignore")
def test_random_text_of_many_scripts_is_prepared_as_by_sentencepiece(tmp_path: Path):
    library = importlib.import_module("sentencepiece")
    model = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS[:3] * 9), model_writer=model, vocab_size=31, minloglevel=2
    )
    (tmp_path / "a.spm").write_bytes(model.getvalue())
    pieces, theirs = (
        sentence_pieces.read(Folder(tmp_path), "a.spm"),
        library.SentencePieceProcessor(model_proto=model.getvalue()),
    )
    table, normalizer, draw = pieces.table(), pieces.normalizer(), random.Random(3)
    for number in range(2000):
        text = "".join(chr(draw.choice(draw.choice(SCRIPTS))) for _ in range(draw.randint(0, 13)))
        text = unicodedata.normalize("NFD", text) if number % 2 else text
        ours = normalizer.normalize_str(table.replace(text).text).replace(" ", "▁")
        assert ours == theirs.normalize(text), text
