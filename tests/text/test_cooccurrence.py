"""Word vectors from the words around them."""

import numpy as np
import pytest
import torch

from regard.text.cooccurrence import cooccurrence_vectors

TEXTS = [[1, 2, 3, 2, 4], [4, 2, 1], [3, 1, 5, 6, 5, 4], [7]]


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
    left, values, _ = np.linalg.svd(products(TEXTS, 9, 2))
    expected = left[:, :7] * np.sqrt(values[:7])
    torch.manual_seed(1)
    found = cooccurrence_vectors(TEXTS, 9, 7, window=2).double().numpy()
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
        cooccurrence_vectors(TEXTS, 9, 9)
