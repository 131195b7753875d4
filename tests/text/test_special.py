"""Special tokens of published vocabularies: their own ids, kept in the tokenizer's file."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from regard.errors import InputError
from regard.text import SPECIAL, SpecialTokens, Tokenizer, TokenizerSettings
from regard.text.kinds import ALPHABET, KINDS, KindName

WORDS = ["the", "##re", "[PAD]", "cat", "[SEP]", "[UNK]", "[CLS]", "[MASK]"]
BERT = SpecialTokens(pad=2, unknown=5, start=6, end=4, mask=7)
END = 256
GPT2 = SpecialTokens(END, END, END, END)


def with_vocabulary(kind: KindName, vocabulary: dict[str, int], special: SpecialTokens) -> Tokenizer:
    return Tokenizer.of_backend(TokenizerSettings(kind), KINDS[kind].build(vocabulary, (), special), special)


def word_pieces() -> Tokenizer:
    vocabulary = {entry: index for index, entry in enumerate(WORDS)}
    return with_vocabulary("wordpiece", vocabulary, BERT)


def bytes_and_an_end() -> Tokenizer:
    vocabulary = {entry: index for index, entry in enumerate([*ALPHABET, "<|endoftext|>"])}
    return with_vocabulary("bpe", vocabulary, GPT2)


def test_a_vocabulary_that_is_trained_has_the_first_ids():
    assert Tokenizer.train(TokenizerSettings("word"), ["a b"]).special == SPECIAL == SpecialTokens(0, 1, 2, 3, None)
    assert Tokenizer.train(TokenizerSettings("wordpiece"), ["a b"]).special == SpecialTokens(mask=4)


def test_special_ids_may_stand_anywhere(tmp_path: Path):
    word_pieces().save(tmp_path / "tokenizer.json")
    for tokenizer in (
        word_pieces(),
        Tokenizer.load(tmp_path / "tokenizer.json"),
        pickle.loads(pickle.dumps(word_pieces())),
    ):
        assert tokenizer.special == BERT
        assert tokenizer.encode("there cat, [CLS]") == [0, 1, 3, 5, 5, 5, 5]
        assert tokenizer.decode([6, 0, 1, 2, 3, 5, 4, 2]) == "there cat \ufffd"
        assert tokenizer.pieces([6, 0, 5, 7, 4, 2]) == ["[CLS]", "the", "[UNK]", "[MASK]", "[SEP]", "[PAD]"]


def test_one_token_may_be_several_of_them():
    tokenizer = bytes_and_an_end()
    ids = tokenizer.encode("é!")
    assert tokenizer.encode("\x00") == [32, 0]  # a blank and an ordinary token
    assert tokenizer.decode([END, *ids, END]) == "é!"
    assert tokenizer.pieces([END, 33]) == ["<|endoftext|>", "!"]
    assert (GPT2.unwritten, GPT2.silent, GPT2.all) == ((), (END,) * 3, (END,))
    assert (BERT.unwritten, BERT.all) == ((2, 6), (2, 4, 5, 6, 7))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"end": 8}, "a special id is not one of its vocabulary"),
        ({"pad": 99}, "a special id is not one of its vocabulary"),
        ({"mask": True}, "a special id is not one of its vocabulary"),
        ({"bos": 1}, "its special ids are not end, mask, pad, start, unknown"),
        ({"unknown": 4}, "its pipeline is not that of kind wordpiece"),
    ],
)
def test_a_file_with_wrong_ids_is_refused(change: dict[str, Any], message: str, tmp_path: Path):
    word_pieces().save(tmp_path / "tokenizer.json")
    document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    document["special"] |= change
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=f"broken tokenizer file, {message}"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def with_another_unknown(kind: KindName) -> Tokenizer:
    vocabulary = {entry: index for index, entry in enumerate([*WORDS, "<unk>"])}
    return with_vocabulary(kind, vocabulary, BERT)


@pytest.mark.parametrize("kind", ["word", "character", "space"])
def test_the_name_of_unknown_pieces_is_no_other_entry(kind: KindName):
    with pytest.raises(InputError, match="entry '<unk>' is not its unknown piece"):
        with_another_unknown(kind)


def test_word_pieces_may_have_another_unknown_entry_which_no_text_becomes():
    """MPNet's vocabulary has both."""
    tokenizer = with_another_unknown("wordpiece")
    assert tokenizer.encode("the <unk> cat") == [0, 5, 5, 5, 3]
    assert tokenizer.decode([0, 8, 3]) == "the \ufffd cat"
