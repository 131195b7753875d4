"""BPE-dropout: another segmentation of the same text every time it is seen.

Provilkov, Emelianenko, Voita 2020 (1910.13267). While a word is put together from its bytes, each merge that is
possible is skipped with probability p at every step; of the rest the one learnt first is applied, until none is left.
The backend's own version draws from a generator that cannot be seeded, so it would make no run repeatable.

Speed: a word type has VARIANTS segmentations, each drawn by the procedure above from (word, number of the variant)
and remembered. A sentence chooses one of them for each of its words, by the bytes of a hash of (seed, text). Every
variant is an exact sample, so a word's segmentations follow the paper's distribution as VARIANTS draws from it do.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from hashlib import shake_128
from itertools import pairwise
from random import Random

VARIANTS = 32  # divides 256, so that a byte chooses each as often
_REMEMBERED = 50_000
_LONGEST_REMEMBERED = 64
_Merge = tuple[int, int, str, str]  # rank, where the left piece starts, left piece, right piece


class MergeDropout:
    """Segments words with merges skipped.

    ranks: the order in which pairs were learnt. ids: the vocabulary. probability: of skipping a merge, in [0, 1).
    """

    def __init__(self, ranks: Mapping[tuple[str, str], int], ids: Mapping[str, int], probability: float) -> None:
        self._ranks = ranks
        self._ids = ids
        self._probability = probability
        self._variants: dict[str, list[tuple[int, ...] | None]] = {}

    def encode(self, words: Sequence[str], text: str, seed: int) -> list[int]:
        """Ids of the words of `text` (as byte-level characters): a pure function of (text, seed)."""
        noise = shake_128(f"{seed} {text}".encode()).digest(len(words))
        ids: list[int] = []
        for word, byte in zip(words, noise, strict=True):
            variants = self._variants.get(word)
            known = variants[byte % VARIANTS] if variants is not None else None
            ids.extend(self._draw(word, byte % VARIANTS) if known is None else known)
        return ids

    def _draw(self, word: str, number: int) -> tuple[int, ...]:
        draw, probability = Random(f"{number} {word}").random, self._probability
        variant = tuple(self._ids[piece] for piece in segment(word, self._ranks, lambda: draw() < probability))
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self._variants) >= _REMEMBERED:
                self._variants.clear()
            self._variants.setdefault(word, [None] * VARIANTS)[number] = variant
        return variant


def segment(word: str, ranks: Mapping[tuple[str, str], int], skip: Callable[[], bool]) -> list[str]:
    """The pieces of `word` after all merges; `skip()` says whether the merge at hand is passed over in this step.

    A step looks at the merges in the order they were learnt, leftmost first, and stops at the first that is not
    skipped. Drawing only for those it looks at gives the same distribution as drawing for all.
    """
    size = len(word)
    pieces = list(word)
    following, preceding = list(range(1, size + 1)), list(range(-1, size - 1))
    queue = [(ranks[pair], start, *pair) for start, pair in enumerate(pairwise(pieces)) if pair in ranks]
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
        # A piece only grows, or is emptied into the one before it: equal pieces mean that this pair still stands.
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
