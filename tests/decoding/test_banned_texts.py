"""Texts that no output contains, for every kind of tokens."""

from random import Random

import pytest
import torch

from regard.decoding.constraints import BannedTexts, DecodingConstraints
from regard.decoding.search import Search
from regard.errors import InputError
from regard.text import Tokenizer, TokenizerSettings
from regard.text.kinds import SMALLEST, KindName
from regard.text.special import END
from tests.decoding.scripted import Scripted, Text, sources

TEXTS = ["the cat sat on the mat, and the dog ate the caterpillar.", "ein Überfall größer naïve 日本語 cat"]
KINDS = [kind for kind in SMALLEST if kind not in ("unigram", "pipeline")]  # which are not trained


def tokenizer(kind: KindName) -> Tokenizer:
    return Tokenizer.train(TokenizerSettings(kind, 400), TEXTS * 3)


def forbidden(banned: BannedTexts, ids: list[int], size: int) -> set[int]:
    tokens = torch.tensor([ids], dtype=torch.long).view(1, -1)
    return set((banned(torch.zeros(1, size), tokens, torch.tensor([0]))[0] == -torch.inf).nonzero()[:, 0].tolist())


@pytest.mark.parametrize("texts", [["cat"], ["the dog"], ["größer"], ["本"], ["at, a", "mat"]])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_never_appears_and_nothing_else_is_forbidden(kind: KindName, texts: list[str]):
    """Texts of the corpus are written until a token is forbidden, then random tokens follow."""
    cut, random = tokenizer(kind), Random(3)
    banned = BannedTexts.of(cut, texts)
    refused = 0
    for corpus in TEXTS * 2:
        ids: list[int] = []
        for token in cut.encode(corpus):
            found = forbidden(banned, ids, cut.size)
            if token in found:
                refused += 1
                assert any(text in cut.decode([*ids, token]) for text in texts)
                token = random.choice([each for each in range(cut.size) if each not in found])
            ids.append(token)
        assert not any(text in cut.decode(ids) for text in texts)
    assert bool(refused) == any(text in cut.decode(cut.encode(corpus)) for text in texts for corpus in TEXTS)


@pytest.mark.parametrize("search", [Search(), Search(beam=3), Search(temperature=1.0)])
def test_no_search_writes_one(search: Search):
    """The model would write "the cat" and end, nothing else."""
    cut = tokenizer("character")
    wanted, size = [*cut.encode("the cat"), END], cut.size

    def script(row: int, text: Text) -> list[float]:
        return [20.0 * (token == wanted[min(len(text), 7)]) for token in range(size)]

    def written(constraints: DecodingConstraints) -> list[str]:
        found = search(Scripted(size, script), sources(2), torch.tensor([9, 8]), constraints)
        return [cut.decode(best.tokens) for best, *_ in found]

    assert written(DecodingConstraints()) == ["the cat", "the cat"]
    for text in written(DecodingConstraints(banned=BannedTexts.of(cut, ["cat"]))):
        assert "cat" not in text
        assert "the ca" in text


def test_words_of_a_source_are_its_own():
    cut = tokenizer("word")
    banned = BannedTexts.of(cut, ["zebra"], [["zebra", "lion"], ["lion"]])
    scores = torch.zeros(2, cut.size + 2)
    found = banned(scores, torch.zeros(2, 0, dtype=torch.long), torch.tensor([0, 1]))
    assert (found == -torch.inf).nonzero().tolist() == [[0, cut.size]]
    assert [*map(len, banned.rows([1]).owns)] == [1]


def test_a_banned_text_of_blanks():
    with pytest.raises(InputError, match="a banned text is ' '; give at least one character"):
        BannedTexts.of(tokenizer("gpt2"), [" "])
