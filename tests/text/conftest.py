"""One small trained tokenizer of each kind."""

import pytest

from regard.text import Tokenizer, TokenizerSettings

CORPUS = [
    "the cat sat on the mat, the other cat did not.",
    "the lowest of the low sat lower than the low wall",
    'she said: "this is not the end" (or is it?)',
    "<s> the <unk> tag </s> and <pad> are text </s> <s> <s>",
    "Das Mädchen läuft über die Straße; größer, größte!",
    "2016-03-05 was a day of 1,000 cats - or 3.14?",
    "नमस्ते दुनिया, привет мир",
]


@pytest.fixture(scope="session")
def character() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("character"), CORPUS)


@pytest.fixture(scope="session")
def word() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("word"), CORPUS)


@pytest.fixture(scope="session")
def space() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("space"), CORPUS)


@pytest.fixture(scope="session")
def bpe() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("bpe", size=401), CORPUS)


@pytest.fixture(scope="session")
def dropping() -> Tokenizer:
    return Tokenizer.train(TokenizerSettings("bpe", size=401, dropout=0.3), CORPUS)


@pytest.fixture(params=["character", "word", "space", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return request.getfixturevalue(request.param)
