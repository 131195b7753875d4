from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.text import Tokenizer, TokenizerSettings
from regard.text.cooccurrence import cooccurrence_vectors
from regard.text.words import sentence_spans, word_indices

TEXT = "  ein  Mädchen läuft. "


def test_by_hand():
    spans = [(0, 5), (5, 9), (9, 14), (14, 19), (19, 20), (20, 21), (21, 22)]
    assert word_indices(" a bc", [(0, 2), (2, 4), (4, 5)]) == [0, 1, 1]
    assert word_indices(TEXT, spans) == [0, 1, 1, 2, 2, 2, 2]
    assert word_indices("", []) == []


@pytest.mark.parametrize("kind", ["character", "word", "space", "bpe"])
@pytest.mark.parametrize("text", [TEXT, "ein", "日本 語", "x\u3000y", "👩‍👩‍👧 ja"])
def test_every_word_has_a_piece(kind, text: str):
    tokenizer = Tokenizer.train(TokenizerSettings(kind), [TEXT, "ein Mädchen"] * 3)
    found = word_indices(text, tokenizer.offsets(text))
    assert len(found) == len(tokenizer.encode(text))
    assert sorted(set(found)) == list(range(len(text.split())))
    assert found == sorted(found)


NEIGHBORS = [[1, 2, 3, 2, 4], [4, 2, 1], [3, 1, 5, 6, 5, 4], [7]]


def products(texts: list[list[int]], vocabulary: int, window: int) -> np.ndarray:
    """Positive pointwise mutual information with smoothed contexts, pair by pair."""
    counts = np.zeros((vocabulary, vocabulary))
    for text in texts:
        for one, word in enumerate(text):
            for other, context in enumerate(text):
                if 0 < abs(one - other) <= window:
                    counts[word, context] += 1 / abs(one - other)
    words, contexts = counts.sum(1) / counts.sum(), counts.sum(0) ** 0.75
    contexts /= contexts.sum()
    found = np.zeros_like(counts)
    for word, context in zip(*counts.nonzero(), strict=True):
        found[word, context] = max(0, np.log(counts[word, context] / counts.sum() / words[word] / contexts[context]))
    return found


def test_vectors_are_those_of_the_whole_decomposition():
    left, values, _ = np.linalg.svd(products(NEIGHBORS, 9, 2))
    expected = left[:, :7] * np.sqrt(values[:7])
    torch.manual_seed(1)
    found = cooccurrence_vectors(NEIGHBORS, 9, 7, window=2).double().numpy()
    lengths = np.linalg.norm(expected, axis=-1, keepdims=True)
    known = lengths[:, 0] > 1e-9
    expected = expected[known] / lengths[known] * np.sqrt(7)
    np.testing.assert_allclose(found[known] @ found[known].T, expected @ expected.T, rtol=1e-4, atol=1e-4)
    assert not found[~known].any()
    assert (~known).sum() == 3  # 0 and 8 do not occur, 7 has no neighbour


def test_words_of_like_company_have_like_vectors():
    generator = torch.Generator().manual_seed(1)
    pets, fruits, around = (1, 2), (3, 4), {0: (5, 6, 7), 1: (8, 9, 10)}
    texts = []
    for _ in range(300):
        kind = int(torch.randint(2, (), generator=generator))
        word = (pets, fruits)[kind][int(torch.randint(2, (), generator=generator))]
        texts.append([word, *(around[kind][int(each)] for each in torch.randint(3, (3,), generator=generator))])
    vectors = torch.nn.functional.normalize(cooccurrence_vectors(texts, 11, 4), dim=-1)
    assert float(vectors[1] @ vectors[2]) > 0.9 > 0.3 > float(vectors[1] @ vectors[3])


def test_more_numbers_than_words():
    with pytest.raises(ValueError, match="vectors of 9 numbers need more words than that; the vocabulary has 9"):
        cooccurrence_vectors(NEIGHBORS, 9, 9)


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("Word", ["Word"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("Dr. Smith met J. R. Brown, e.g. in the U.S. There.", ["Dr. Smith met J. R. Brown, e.g. in the U.S. There."]),
        ("It cost 3.50 dollars. We paid.", ["It cost 3.50 dollars.", "We paid."]),
        ("Wait... he came. Really?! Yes.", ["Wait... he came.", "Really?!", "Yes."]),
        ("all is lower case . the film ends . ok", ["all is lower case .", "the film ends .", "ok"]),
        ("A heading\n\nA text of\ntwo lines.", ["A heading", "A text of\ntwo lines."]),
        ("今日は晴れ。明日は雨！そう。", ["今日は晴れ。", "明日は雨！", "そう。"]),
        ("फिल्म अच्छी थी। मुझे पसंद आई।", ["फिल्म अच्छी थी।", "मुझे पसंद आई।"]),
        ("یہ اچھا ہے۔ کیا؟ ہاں۔", ["یہ اچھا ہے۔", "کیا؟", "ہاں۔"]),
        ("ကောင်းတယ်။ကြိုက်တယ်။", ["ကောင်းတယ်။", "ကြိုက်တယ်။"]),
        ("ሰላም ነው። ደህና ነኝ።", ["ሰላም ነው።", "ደህና ነኝ።"]),
        ("Τι κάνεις; Είμαι καλά. He left; she slept.", ["Τι κάνεις;", "Είμαι καλά.", "He left; she slept."]),
        ("…", ["…"]),
    ],
)
def test_sentences_by_hand(text: str, expected: list[str]):
    assert cut(text) == expected


@given(st.text(alphabet="aB .!?\n\"'。…é1।؟α;", max_size=60))
def test_spans_hold_all_but_blanks(text: str):
    spans = sentence_spans(text)
    assert all(start < end for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)


def test_ten_thousand_sentences_are_cut_at_once():
    assert len(sentence_spans("It is so. " * 10_000)) == 10_000
    assert len(sentence_spans("word " * 100_000)) == 1
