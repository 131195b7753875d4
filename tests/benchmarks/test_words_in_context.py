"""Sentences with two swapped words, and an embedding that keeps the states it computed."""

import random
from pathlib import Path

import pytest
import torch

from benchmarks.words_in_context import Held, HeldEmbedding, places, sentences, shifted
from regard.data.char_words import spell_vocabulary
from regard.models.elmo import Elmo, ElmoConfig
from regard.models.elmo_embedding import ElmoEmbedding
from regard.text import Tokenizer, TokenizerSettings


def test_sentences_of_wikitext(tmp_path: Path):
    lines = [" = A heading = ", " ", " The cat sat there . It ran . The dog <unk> saw it go . ", f" {'long ' * 28}. "]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    found = [" ".join(words) for words in sentences(tmp_path / "a.txt")]
    assert found == ["The cat sat there .", "The dog <unk> saw it go ."]


def test_where_words_may_change_places():
    assert places(["The", "cat", "that", "That", "3", "<unk>", "saw", "it", "."]) == [1, 6]
    assert places(["The", "cat", "."]) == []


def test_every_other_sentence_is_changed_by_one_pair():
    given = [["The", "cat", "saw", "it", "."]] * 20
    rows = list(shifted(given, random.Random(1)))
    assert [row["label"] for row in rows] == ["as it was", "changed"] * 10
    assert {row["text"] for row in rows[::2]} == {"The cat saw it ."}
    assert {row["text"] for row in rows[1::2]} == {"The saw cat it .", "The cat it saw ."}


@pytest.mark.parametrize("layers", [1, 3])
def test_held_states_are_those_of_elmo(layers: int):
    tokenizer = Tokenizer.train(TokenizerSettings("word", 50), ["the bank of the river"])
    sizes = ElmoConfig(characters=11, filters=((2, 7), (3, 13)), projection=5, cell=17)
    elmo, spelled = Elmo(tokenizer.size, sizes).eval(), spell_vocabulary(tokenizer, 11)
    held: Held = {}
    ours = HeldEmbedding(elmo, spelled, layers, 0.0, held)
    theirs = ElmoEmbedding(elmo, spelled)
    tokens = torch.tensor([[*tokenizer.encode("river bank of"), 0], tokenizer.encode("the bank of the")])
    whole = theirs(tokens) if layers == 3 else elmo.words(spelled[tokens]).repeat(1, 1, 2) * (tokens > 0)[..., None]
    torch.testing.assert_close(ours(tokens), whole)
    assert len(held) == 2
    torch.testing.assert_close(ours(tokens.flip(0)[:, :4]), whole.flip(0))
    assert len(held) == 2
    ours(tokens).sum().backward()
    assert [name for name, each in ours.named_parameters() if each.grad is not None] == ["mix.weights", "mix.gamma"]
