"""Vectors of words from the words around them: positive pointwise mutual information and its largest singular vectors.

Levy, Goldberg, Dagan 2015, "Improving distributional similarity with lessons learned from word embeddings" (TACL 3),
sections 2.1, 2.2 and 3.1.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.shapes import Float

SMOOTHING = 0.75
"""The exponent of the counts of context words (section 3.2)."""
AT_ONCE = 2_000_000
"""Pairs that are counted together."""

Counts = tuple[np.ndarray, np.ndarray]
"""The numbers of pairs, first x vocabulary + second, in order; and how often each occurs."""


def cooccurrence_vectors(
    texts: Iterable[Sequence[int]], vocabulary: int, width: int, window: int = 5
) -> Float[Tensor, "vocabulary width"]:
    """Return a vector of `width` numbers for each word, each of mean magnitude one.

    A word without neighbors has zeros.

    Words at distance d up to `window` count 1/d. With M = max(0, log p(w, c) / (p(w) p(c)^0.75)) ~ U S V^T, a word's
    vector is its row of U S^0.5, scaled.

    Raises:
        ValueError: the vocabulary has fewer words than `width`.
    """
    if width >= vocabulary:
        raise ValueError(
            f"vectors of {width} numbers need more words than that; the vocabulary has {vocabulary}"
        )
    pairs, counts = _count_pairs(texts, vocabulary, window)
    rows, columns = np.divmod(pairs, vocabulary)
    words = np.bincount(rows, counts, vocabulary)
    contexts = np.bincount(columns, counts, vocabulary) ** SMOOTHING
    information = np.log(counts * contexts.sum() / (words[rows] * contexts[columns]))
    positive = information > 0
    matrix = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([rows[positive], columns[positive]])),
        torch.from_numpy(information[positive]),
        (vocabulary, vocabulary),
        is_coalesced=True,
        check_invariants=False,
    )
    factor, values, _ = torch.svd_lowrank(matrix, q=width, niter=4)
    vectors = factor * values.sqrt()
    lengths = vectors.norm(dim=-1, keepdim=True)
    return torch.where(
        lengths > 1e-6, vectors / lengths.clamp(min=1e-6) * width**0.5, 0.0
    ).float()


def _count_pairs(
    texts: Iterable[Sequence[int]], vocabulary: int, window: int
) -> Counts:
    """All pairs of words at most `window` apart, in both orders, with the sum of their weights."""
    total: Counts = np.zeros(0, np.int64), np.zeros(0)
    waiting: list[Counts] = []
    size = 0
    for text in texts:
        ids = np.asarray(text, np.int64)
        for distance in range(1, min(window, len(ids) - 1) + 1):
            before = ids[:-distance]
            after = ids[distance:]
            pairs = np.concatenate(
                [before * vocabulary + after, after * vocabulary + before]
            )
            waiting.append((pairs, np.full(len(pairs), 1 / distance)))
            size += len(pairs)
        if size > AT_ONCE:
            total = _merge_counts([total, *waiting])
            waiting = []
            size = 0
    return _merge_counts([total, *waiting])


def _merge_counts(groups: Sequence[Counts]) -> Counts:
    """Add up the counts of the same pairs."""
    pairs = np.concatenate([keys for keys, _ in groups])
    unique, places = np.unique(pairs, return_inverse=True)
    return unique, np.bincount(
        places, np.concatenate([counts for _, counts in groups]), len(unique)
    )
