"""Logistic regression of scikit-learn, which benchmarks alone need: what models are to beat."""

from collections.abc import Sequence
from typing import Any

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Of the inverse of the penalty; the one that is best on the validation set is used."""


def accuracy(
    train: tuple[Any, Sequence[str]], valid: tuple[Any, Sequence[str]], test: tuple[Any, Sequence[str]]
) -> float:
    """In per cent, on the test set. Each set is its features, as scikit-learn has them, and its labels."""
    from sklearn.linear_model import LogisticRegression  # pyright: ignore[reportMissingImports]

    fitted = [LogisticRegression(C=strength, max_iter=5000).fit(*train) for strength in STRENGTHS]
    return 100 * max(fitted, key=lambda each: each.score(*valid)).score(*test)


def of_words(
    train: tuple[Sequence[str], Sequence[str]],
    valid: tuple[Sequence[str], Sequence[str]],
    test: tuple[Sequence[str], Sequence[str]],
) -> float:
    """The same of texts by their words and pairs of words, TF-IDF with sublinear counts."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # pyright: ignore[reportMissingImports]

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"\S+").fit(train[0])
    sets = [(words.transform(texts), labels) for texts, labels in (train, valid, test)]
    return accuracy(*sets)
