"""The tokenizer file: repeatable, and refused with one line when it is anything else."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.errors import InputError
from regard.text import Tokenizer, TokenizerSettings

from .conftest import CORPUS


def test_row_54_trained_twice_is_one_file(tokenizer: Tokenizer, tmp_path: Path) -> None:
    again = Tokenizer.train(tokenizer.settings, iter(CORPUS))
    tokenizer.save(tmp_path / "first.json")
    again.save(tmp_path / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    assert again.digest == tokenizer.digest == hashlib.sha256((tmp_path / "first.json").read_bytes()).hexdigest()


def test_row_54_other_process_and_hash_seed(bpe: Tokenizer) -> None:
    program = (
        "import json, sys; from regard.text import *;"
        "print(Tokenizer.train(TokenizerSettings('bpe', size=401), json.load(sys.stdin)).digest)"
    )
    for seed in ("2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(CORPUS),
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed},
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
        b"hello",
        b"[" * 100_000,
        b"null",
        b"[1, 2]",
        b'{"version": "1.0", "model": {}}',
        b'{"format": "regard-tokenizer"}',
        b'{"format": "regard-tokenizer", "version": 2}',
        b'{"format": "regard-tokenizer", "version": 1, "settings": {"kind": "word"}, "tokenizer": {}}',
        b'{"format": "regard-tokenizer", "version": 1}',
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
        lambda d: d["tokenizer"]["model"]["vocab"].update({"x": "y"}),
        lambda d: d["tokenizer"]["model"]["vocab"].update({"\ud800": d["settings"]["size"]}),
        lambda d: d["tokenizer"]["model"]["vocab"].pop("a"),
        lambda d: d["tokenizer"]["model"].update(vocab=[]),
        lambda d: d["tokenizer"]["model"].update(type="Unigram"),
        lambda d: d["tokenizer"]["model"].update(dropout=0.5),
        lambda d: d["tokenizer"]["model"]["merges"].append(["a"]),
        lambda d: d["tokenizer"]["model"]["merges"].append(["a", "☃"]),
        lambda d: d["tokenizer"]["model"].update(merges=7),
        lambda d: d["tokenizer"].update(pre_tokenizer=None),
        lambda d: d["tokenizer"].update(truncation={"max_length": 3}),
        lambda d: d["settings"].update(size=270),
        lambda d: d["settings"].update(size="many"),
        lambda d: d["settings"].update(kind=["bpe"]),
        lambda d: d["settings"].update(kind="word"),
        lambda d: d["settings"].update(dropout=2),
        lambda d: d.update(settings=None),
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


def test_word_file_with_an_altered_vocabulary_type(word: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    word.save(path)
    document = json.loads(path.read_bytes())
    document["tokenizer"]["model"]["vocab"]["\ud800"] = word.size
    path.write_text(json.dumps(document))
    _refused(path)


def test_settings_are_kept() -> None:
    settings = TokenizerSettings("bpe", size=300, dropout=0.1, minimum_count=2)
    assert Tokenizer.train(settings, CORPUS).settings == settings
