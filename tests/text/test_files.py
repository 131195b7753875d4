"""The tokenizer file: repeatable, and refused with one line when it is anything else."""

import hashlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import InputError
from regard.text import SPECIAL, SpecialTokens, Tokenizer, TokenizerSettings
from regard.text.kinds import ALPHABET, KINDS, STRIP_ALL, KindName
from regard.text.pipeline import Pipeline

from .conftest import CORPUS


def test_trained_twice_is_one_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    again = Tokenizer.train(tokenizer.settings, iter(CORPUS))
    tokenizer.save(tmp_path / "first.json")
    again.save(tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert again.digest == tokenizer.digest == hashlib.sha256((tmp_path / "first.json").read_bytes()).hexdigest()


def test_other_process_and_hash_seed(bpe: Tokenizer) -> None:
    program = (
        "import json, sys; from regard.text import *;"
        "print(Tokenizer.train(TokenizerSettings('bpe', size=401), json.load(sys.stdin)).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(CORPUS),
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == bpe.digest


def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, dropping: Tokenizer, tmp_path: Path) -> None:
    for index, original in enumerate((tokenizer, dropping)):
        path = tmp_path / f"größe {index}.json"
        original.save(path)
        loaded = Tokenizer.load(path)
        assert (loaded.digest, loaded.size, loaded.settings) == (original.digest, original.size, original.settings)
        for line in [*CORPUS, "😀 unseen žluť"]:
            assert loaded.encode(line) == original.encode(line)
            assert loaded.encode_with_dropout(line, 5) == original.encode_with_dropout(line, 5)
            assert loaded.decode(loaded.encode(line)) == original.decode(original.encode(line))


def _refused(path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Tokenizer.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff\xfe garbage",
        b"[" * 100_000,
        b"[1, 2]",
        b'{"version": "1.0", "model": {}}',
        b'{"format": "regard-tokenizer", "version": 2}',
        b'{"format": "regard-tokenizer", "version": 1, "settings": {"kind": "word"}, "tokenizer": {}}',
    ],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(content)
    _refused(tmp_path / "t.json")


def test_truncated_files_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tokenizer.save(path)
    content = path.read_bytes()
    for size in range(0, len(content) - 2, len(content) // 29):
        path.write_bytes(content[:size])
        _refused(path)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    _refused(tmp_path / "missing.json")
    _refused(tmp_path)


def _add_added_token(document: dict[str, Any]) -> None:
    token = {"id": 2, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False}
    document["tokenizer"]["added_tokens"] = [token | {"normalized": False, "special": True}]


def _swap_specials(document: dict[str, Any]) -> None:
    document["tokenizer"]["model"]["vocab"] |= {"<pad>": 2, "<s>": 0}


@pytest.mark.parametrize(
    "change",
    [
        _add_added_token,
        _swap_specials,
        lambda d: d["tokenizer"]["model"]["vocab"].update({"hole": 90_001}),
        lambda d: d["tokenizer"]["model"]["vocab"].update({"\ud800": d["settings"]["size"]}),
        lambda d: d["tokenizer"]["model"]["vocab"].pop("a"),
        lambda d: d["tokenizer"]["model"].update(type="Unigram"),
        lambda d: d["tokenizer"]["model"].update(dropout=0.5),
        lambda d: d["tokenizer"]["model"]["merges"].append(["a", "☃"]),
        lambda d: d["tokenizer"]["model"].update(merges=7),
        lambda d: d["tokenizer"].update(pre_tokenizer=None),
        lambda d: d["tokenizer"].update(truncation={"max_length": 3}),
        lambda d: d["settings"].update(size=270),
        lambda d: d["settings"].update(kind="word"),
        lambda d: d["settings"].update(dropout=2),
        lambda d: d.update(tokenizer=[3]),
    ],
)
def test_altered_files_are_refused(bpe: Tokenizer, change: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    bpe.save(path)
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))
    _refused(path)


WORDS = ["the", "##re", "[PAD]", "cat", "[SEP]", "[UNK]", "[CLS]", "[MASK]"]
BERT = SpecialTokens(pad=2, unknown=5, start=6, end=4, mask=7)
END = 256
GPT2 = SpecialTokens(END, END, END, END)


def with_vocabulary(kind: KindName, vocabulary: dict[str, int], special: SpecialTokens) -> Tokenizer:
    return Tokenizer.of_backend(
        TokenizerSettings(kind), KINDS[kind].build(vocabulary, (), list(vocabulary)[special.unknown]), special
    )


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
        ({"mask": True}, "1 validation error for SpecialTokens mask"),
        ({"bos": 1}, ".*unexpected keyword argument 'bos'"),
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


def test_accents_are_stripped_and_vowel_signs_are_not():
    """Older files strip all marks, and go on doing so."""
    tokenizer = Tokenizer.train(TokenizerSettings("wordpiece-uncased", 99), ["कुल कल cafe елка かがい ❤️ 한국"])
    encode = tokenizer.encode
    assert encode("Café Ёлка") == encode("cafe елка")
    assert [tokenizer.decode(encode(text)) for text in ("कुल", "が", "한")] == ["कुल", "が", "한"]
    document = json.loads(tokenizer.content)
    document["tokenizer"]["normalizer"] = json.loads(STRIP_ALL.__getstate__())
    former = Tokenizer.of_content(json.dumps(document).encode(), "former")
    assert former.encode("कुल") == former.encode("कल") == encode("कल")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(a{1,9}){2,}"])
def test_a_published_pattern_that_repeats_a_group_is_not_run(pattern: str):
    steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}]
    document = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": {}}
    with pytest.raises(ValueError, match=r"which repeats a group and may take exponential time"):
        Pipeline(document, {}, SPECIAL)
