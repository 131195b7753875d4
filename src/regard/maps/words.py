"""Join pieces to words: attention between subwords becomes attention between words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from regard.maps.alignment import Alignment


class Words(NamedTuple):
    """labels: the words that have a piece.
    indices: the word of each piece, counted from 0.
    """

    labels: tuple[str, ...]
    indices: tuple[int, ...]


def join_words(
    weights: Float[np.ndarray, "... target source"],
    source_words: Sequence[int],
    target_words: Sequence[int],
) -> Float[np.ndarray, "... target_word source_word"]:
    """Sum over the source pieces of a word, mean over the target pieces of a word (Clark et al. 2019, section 4.1).

    source_words, target_words: the word index of each piece, 0 to words - 1, each used. A word receives the sum of its
        pieces' weights and reads with their mean, so that rows that sum to 1 still do.

    Raises ValueError for a wrong count, a negative index or a word without pieces.
    """
    if weights.ndim < 2:
        raise ValueError(
            f"weights of shape {weights.shape}; expected at least (target, source)"
        )
    source = _membership("source", source_words, weights.shape[-1])
    target = _membership("target", target_words, weights.shape[-2])
    mean = target / target.sum(axis=0)
    return mean.T @ weights @ source


def word_alignment(
    alignment: Alignment, source_words: Sequence[int], target_words: Sequence[int]
) -> Alignment:
    """The alignment between words; a word's label is its pieces' labels, joined. Raises ValueError as `join_words`
    does."""
    return Alignment(
        join_words(alignment.weights, source_words, target_words),
        _join_labels(alignment.source, source_words),
        _join_labels(alignment.target, target_words),
    )


def _membership(side: str, words: Sequence[int], pieces: int) -> np.ndarray:
    """(pieces, words), 1.0 where a piece belongs to a word."""
    if len(words) != pieces:
        raise ValueError(
            f"{len(words)} {side} word indices for {pieces} {side} pieces; expected one per piece"
        )
    index = np.array([int(word) for word in words], dtype=np.int64)
    if pieces and index.min() < 0:
        raise ValueError(
            f"{side} word index {index.min()} is negative; expected 0 or more"
        )
    count = int(index.max()) + 1 if pieces else 0
    absent = sorted(set(range(min(count, pieces + 1))) - set(index.tolist()))
    if absent:
        raise ValueError(
            f"{side} word {absent[0]} has no piece; expected every index from 0 to {count - 1}"
        )
    member = np.zeros((pieces, count))
    member[np.arange(pieces), index] = 1.0
    return member


def _join_labels(labels: tuple[str, ...], words: Sequence[int]) -> tuple[str, ...]:
    joined: dict[int, str] = {}
    for label, word in zip(labels, words, strict=True):
        joined[int(word)] = joined.get(int(word), "") + label
    return tuple(joined[word] for word in sorted(joined))
