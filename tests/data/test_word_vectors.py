import gzip
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.data.word_vectors import read_word_vectors
from regard.errors import InputError
from regard.nn.layers import TokenEmbedding
from regard.storage.run_folder import RunDirectory
from regard.tasks.fine_tuning import WordVectors, initialize_word_vectors
from regard.text import Tokenizer, TokenizerSettings

LINES = ("the 1 0 -1", "cat 0.5 2e-1 0 ", ". . . 9 9 9", "die\u00a0Katze 7 7 7", "cat 8 8 8", "Cat 6 6 6", ", 0 3 0")


def write(path: Path, *lines: str) -> str:
    content = "\n".join(lines).encode() + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.mark.parametrize("name", ["glove.txt", "cc.vec", "cc.vec.gz"])
def test_the_first_line_of_each_word(tmp_path: Path, name: str):
    header = [] if name == "glove.txt" else [f"{len(LINES)} 3"]
    found = read_word_vectors(write(tmp_path / name, *header, *LINES), {"cat": 1, ".": 2, "the": 3, "dog": 4}, 3)
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "the": [1, 0, -1],
        "cat": pytest.approx([0.5, 0.2, 0]),
    }


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.vec", ["2 300", "cat 1 2"], "a.vec: has vectors of 300 numbers, .* have 3; set model.embedding=300"),
        ("a.txt", ["cat 1 2", "dog 1 2 3"], "a.txt: has vectors of 2 numbers"),
        ("a.txt", ["cat"], "a.txt:1: expected a word and its numbers"),
        ("a.vec", ["2 3", "dog 1 2 3", "cat 1 2"], "a.vec:3: has 2 numbers; expected a word and 3 numbers"),
        ("a.vec", ["1 3", "cat 1 x 3"], "a.vec:2: could not convert string to float: 'x'"),
        ("a.vec", ["1 3", "cat 1 nan 3"], "a.vec:2: has numbers that are not finite"),
        ("a.vec", ["9 3", "cat 1 2 3"], "a.vec: has 1 words, but its header says 9; it may be cut off"),
        ("a.bin", ["1 3", "cat 1 2 3"], "a.bin: binary word vectors are not supported; use the text form"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, lines: list[str], expected: str):
    with pytest.raises(InputError, match=expected):
        read_word_vectors(write(tmp_path / name, *lines), {"cat": 1}, 3)


@pytest.mark.parametrize("kind", ["word", "space", "wordpiece", "bpe"])
def test_words_of_a_vocabulary_get_their_vectors(tmp_path: Path, caplog, kind):
    """All numbers have one factor, which makes their mean square one; pieces inside words stay as they are."""
    path = write(tmp_path / "cc.vec", *LINES)
    tokenizer = Tokenizer.train(TokenizerSettings(kind, 300), ["the cat , catcat"] * 3)
    model = nn.Module()
    model.embedding = embedding = TokenEmbedding(tokenizer.size, 3)
    before = embedding.table.weight.detach().clone()
    caplog.set_level(logging.INFO)
    vectors = WordVectors(file=path, fixed=True)
    initialize_word_vectors(model, vectors, tokenizer, [], RunDirectory.create(tmp_path / "run"))
    after, rows = embedding.table.weight.detach(), tokenizer.encode("the cat , catcat")[:3]
    expected = torch.tensor([[1, 0, -1], [0.5, 0.2, 0], [0, 3, 0]])
    scale = expected.square().mean().sqrt()
    torch.testing.assert_close(after[rows] * embedding.scale, expected / scale)
    changed = (after != before).any(-1)
    assert {tokenizer.pieces([row])[0] for row in changed.nonzero()[:, 0].tolist()} == {"the", "cat", ","}
    assert "vectors: 3 of " in caplog.text
    assert "words found in cc.vec" in caplog.text
    assert not embedding.table.weight.requires_grad


def test_a_file_of_another_language(tmp_path: Path):
    tokenizer = Tokenizer.train(TokenizerSettings("word"), ["der hund"])
    model = nn.Module()
    model.embedding = TokenEmbedding(tokenizer.size, 3)
    vectors = WordVectors(file=write(tmp_path / "cc.vec", *LINES))
    with pytest.raises(InputError, match="has none of the 2 words of the vocabulary"):
        initialize_word_vectors(model, vectors, tokenizer, [], RunDirectory.create(tmp_path / "run"))


@pytest.mark.parametrize("keys", [{}, {"file": "a.vec", "cooccurrence": "b.txt"}])
def test_vectors_come_from_one_place(keys: dict[str, Any]):
    with pytest.raises(ValueError, match=r"expected one of `file` .* and `cooccurrence`"):
        WordVectors(**keys)
