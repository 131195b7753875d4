"""BPE-dropout: a random segmentation of a text, a new one each time (Provilkov, Emelianenko, Voita 2020, 1910.13267).

At every step, each possible merge of a word is skipped with probability p; of the others the merge learnt first is
applied, until none is left. The version of the tokenizers library uses a generator without a seed, so that runs could
not be repeated.

For speed, a word type has VARIANTS segmentations. Each is drawn by this procedure from (word, number of the variant)
and cached. A sentence chooses one for each of its words by the bytes of a hash of (seed, text). Every variant is an
exact sample from the paper's distribution.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from hashlib import shake_128
from itertools import pairwise
from random import Random

VARIANTS = 32  # divides 256, so that a byte chooses each equally often
_REMEMBERED = 50_000
_LONGEST_REMEMBERED = 64
_Merge = tuple[
    int, int, str, str
]  # rank, where the left piece starts, left piece, right piece


class MergeDropout:
    """Segment words with skipped merges.

    ranks: the order in which pairs were learnt.
    ids: the vocabulary.
    probability: the probability that a merge is skipped, in [0, 1).
    """

    def __init__(
        self,
        ranks: Mapping[tuple[str, str], int],
        ids: Mapping[str, int],
        probability: float,
    ) -> None:
        self._ranks = ranks
        self._ids = ids
        self._probability = probability
        self._variants: dict[str, list[tuple[int, ...] | None]] = {}

    def encode(self, words: Sequence[str], text: str, seed: int) -> list[int]:
        """Ids of the words of `text`, written in byte-level characters: a pure function of (text, seed)."""
        noise = shake_128(f"{seed} {text}".encode()).digest(len(words))
        ids: list[int] = []
        for word, byte in zip(words, noise, strict=True):
            variants = self._variants.get(word)
            known = variants[byte % VARIANTS] if variants is not None else None
            ids.extend(self._draw(word, byte % VARIANTS) if known is None else known)
        return ids

    def _draw(self, word: str, number: int) -> tuple[int, ...]:
        draw, probability = Random(f"{number} {word}").random, self._probability
        variant = tuple(
            self._ids[piece]
            for piece in segment(word, self._ranks, lambda: draw() < probability)
        )
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self._variants) >= _REMEMBERED:
                self._variants.clear()
            self._variants.setdefault(word, [None] * VARIANTS)[number] = variant
        return variant


def segment(
    word: str, ranks: Mapping[tuple[str, str], int], skip: Callable[[], bool]
) -> list[str]:
    """The pieces of `word` after all merges. `skip()` decides whether a merge is skipped in this step.

    A step tries the merges in the order in which they were learnt, leftmost first, and stops at the first that is not
    skipped. Drawing only for the merges tried gives the same distribution as drawing for all.
    """
    size = len(word)
    pieces = list(word)
    following, preceding = list(range(1, size + 1)), list(range(-1, size - 1))
    queue = [
        (ranks[pair], start, *pair)
        for start, pair in enumerate(pairwise(pieces))
        if pair in ranks
    ]
    heapq.heapify(queue)
    skipped: list[_Merge] = []

    def offer(start: int) -> None:
        if start >= 0 and following[start] < size:
            pair = pieces[start], pieces[following[start]]
            rank = ranks.get(pair)
            if rank is not None:
                heapq.heappush(queue, (rank, start, *pair))

    while queue:
        _, start, left, right = entry = heapq.heappop(queue)
        end = following[start]
        # A piece only grows, or is emptied into the one before it: if both pieces are unchanged, the pair still exists.
        if end >= size or pieces[start] != left or pieces[end] != right:
            continue
        if skip():
            skipped.append(entry)
            continue
        pieces[start], pieces[end] = left + right, ""
        following[start] = following[end]
        if following[end] < size:
            preceding[following[end]] = start
        offer(preceding[start])
        offer(start)
        while skipped:
            heapq.heappush(queue, skipped.pop())
    return [piece for piece in pieces if piece]
