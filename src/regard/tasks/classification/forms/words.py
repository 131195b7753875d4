"""The words of a text, which blanks separate, as what tokens are made of."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.text.words import word_indices


class Words(NamedTuple):
    """labels: the words that have a token. indices: of each token its word, counted from 0."""

    labels: tuple[str, ...]
    indices: tuple[int, ...]


def words_of(text: str, spans: Sequence[tuple[int, int]]) -> Words:
    """The words of tokens that stand at these spans of characters, in order."""
    labels: list[str] = []
    indices: list[int] = []
    last = -1
    begin = 0
    for (start, end), word in zip(spans, word_indices(text, spans), strict=True):
        if word != last:
            labels.append("")
            last, begin = word, start
        labels[-1] = text[begin:end].strip()
        indices.append(len(labels) - 1)
    return Words(tuple(labels), tuple(indices))
