"""A statistical word aligner: two hidden Markov models that are trained to agree.

Vogel 1996 (equations 5 to 7) with the empty words of Och & Ney 2003 (section 2.1.2) and
the agreement of Liang 2006 (equation 5).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from regard.maps.alignment import Matrix
from regard.maps.links import Links

ROUNDS = 5
"""Rounds of expectation maximization without agreement, and then with it."""
NO_SOURCE = 0.2
"""The probability that a target word has no source word."""
MAX_JUMP = 10
"""The distance from which all jumps are equally probable."""
THRESHOLD = 0.4

Jumps = Float[np.ndarray, "jump"]
Words = Float[np.ndarray, "sentence target"]
Cells = Float[np.ndarray, "sentence target source"]
Indices = Int[np.ndarray, "..."]


class Posteriors(NamedTuple):
    """Probabilities of sentences of equal lengths.

    Attributes:
        links: That a target word is linked to a source word.
        no_source: That a target word has no source word.
        jumps: The expected number of jumps by each distance.
        log_likelihood: Of all sentences together.
    """

    links: Cells
    no_source: Words
    jumps: Jumps
    log_likelihood: float


def infer(emissions: Cells, no_source: Words, jumps: Jumps) -> Posteriors:
    """Compute the posteriors of all links by the forward-backward algorithm.

    A target word without source keeps the position of the word before it. Sentences
    begin at position -1 and jump to the end after their last word.

    Args:
        emissions: The probability of each target word, given each source word.
        no_source: The probability of each target word, given no source word.
        jumps: The weight of each distance from -MAX_JUMP to MAX_JUMP.
    """
    sentences, targets, sources = emissions.shape
    after = np.arange(sources + 1)
    before = after[:, None] - 1
    distances = after - before
    distances = np.clip(distances, -MAX_JUMP, MAX_JUMP) + MAX_JUMP
    transitions = jumps[distances]
    transitions /= transitions.sum(1, keepdims=True)
    to_words = transitions[:, :-1]
    start = to_words[0]
    between = to_words[1:]
    end = transitions[1:, -1]
    states = np.empty((targets, 2, sentences, sources))
    scales = np.empty((targets, sentences, 1))
    has_source = 1 - NO_SOURCE
    prior = np.broadcast_to(start, (sentences, sources))
    last = start
    for word in range(targets):
        state = states[word]
        state[0] = has_source * prior * emissions[:, word]
        state[1] = NO_SOURCE * last * no_source[:, word, None]
        scales[word] = state.sum(0).sum(1, keepdims=True)
        state /= scales[word]
        last = state.sum(0)
        prior = last @ between
    forward = states.sum(1)
    ends = last @ end
    backward = end / ends[:, None]
    final = last * backward
    counts = np.zeros_like(transitions)
    counts[1:, -1] = final.sum(0)
    word_counts = counts[1:, :-1]
    for word in reversed(range(targets)):
        states[word] *= backward
        scale = scales[word]
        emission = has_source * emissions[:, word] * backward / scale
        stay = NO_SOURCE * no_source[:, word, None] * backward / scale
        if word:
            previous = forward[word - 1].T
            word_counts += previous @ emission * between
        else:
            first = start * (emission + stay)
            counts[0, :-1] = first.sum(0)
        backward = emission @ between.T + stay
    links, gaps = states.swapaxes(0, 1)
    jump_counts = count(distances, counts, len(jumps))
    log_likelihood = np.log(scales).sum() + np.log(ends).sum()
    links = links.swapaxes(0, 1)
    gaps = gaps.sum(2).T
    return Posteriors(links, gaps, jump_counts, float(log_likelihood))


def count(indices: Indices, weights: np.ndarray, size: int) -> np.ndarray:
    """Return the sum of the weights of each index."""
    return np.bincount(indices.ravel(), weights.ravel(), size)


class WordModel:
    """The probabilities of target words, given the source, and of jumps.

    Args:
        source_words: The source word of each pair of words that occurs in a sentence.
        vocabulary: The number of target words.
    """

    def __init__(self, source_words: Indices, vocabulary: int) -> None:
        self.source_words = source_words
        self.emissions = np.full(len(source_words), 1 / vocabulary)
        self.no_source = np.full(vocabulary, 1 / vocabulary)
        self.jumps = np.ones(2 * MAX_JUMP + 1)
        self.reset_counts()

    def reset_counts(self) -> None:
        """Forget what was counted."""
        self.pair_counts = np.zeros_like(self.emissions)
        self.no_source_counts = np.zeros_like(self.no_source)
        self.jump_counts = np.ones_like(self.jumps)

    def infer(self, pairs: Indices, targets: Indices) -> Posteriors:
        """Compute the posteriors of sentences, given their word pairs and words."""
        return infer(self.emissions[pairs], self.no_source[targets], self.jumps)

    def add(self, pairs: Indices, targets: Indices, posteriors: Posteriors) -> None:
        """Add expected counts."""
        links, no_source, jumps, _ = posteriors
        self.pair_counts += count(pairs, links, len(self.emissions))
        self.no_source_counts += count(targets, no_source, len(self.no_source))
        self.jump_counts += jumps

    def update(self, learn_jumps: bool) -> None:
        """Set the probabilities to the relative frequencies of the counts."""
        words = self.source_words
        totals = np.bincount(words, self.pair_counts)
        totals = np.maximum(totals, np.finfo(float).tiny)
        self.emissions = self.pair_counts / totals[words]
        counts = self.no_source_counts
        self.no_source = counts / counts.sum()
        if learn_jumps:
            counts = self.jump_counts
            self.jumps = counts / counts.sum()
        self.reset_counts()


def align_words(
    text: Sequence[tuple[Sequence[str], Sequence[str]]], rounds: int = ROUNDS
) -> list[Matrix]:
    """Align the words of sentence pairs, which are also the only training data.

    Case is ignored. Both models first learn without positions (model 1 of Brown 1993).
    Then they prefer the next word, learn their jumps, and count only links on which
    they agree.

    Args:
        text: The source and the target words of each pair, neither empty.
        rounds: Rounds without agreement, and as many with it.

    Returns:
        The geometric mean of both models' posteriors of each link.
    """
    sources, source_size = number_words([source for source, _ in text])
    targets, target_size = number_words([target for _, target in text])
    groups = defaultdict(list)
    for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
        groups[len(source), len(target)].append(index)
    batches = []
    all_keys = []
    for indices in groups.values():
        source = np.array([sources[index] for index in indices])
        target = np.array([targets[index] for index in indices])
        row_keys = source[:, None] * target_size
        keys = row_keys + target[:, :, None]
        all_keys.append(keys.ravel())
        batches.append((indices, source, target, keys))
    pairs = np.unique(np.concatenate(all_keys))
    forward = WordModel(pairs // target_size, target_size)
    backward = WordModel(pairs % target_size, source_size)
    for number in range(2 * rounds):
        agree = number >= rounds
        if number == rounds:
            distances = np.arange(-MAX_JUMP, MAX_JUMP + 1) - 1
            forward.jumps = np.exp(-abs(distances) / 2)
            backward.jumps = forward.jumps
        for _, source, target, keys in batches:
            cells = np.searchsorted(pairs, keys)
            transposed = cells.swapaxes(1, 2)
            posteriors = forward.infer(cells, target)
            opposite = backward.infer(transposed, source)
            if agree:
                links = posteriors.links * opposite.links.swapaxes(1, 2)
                posteriors = limit_links(posteriors, links)
                opposite = limit_links(opposite, links.swapaxes(1, 2))
            forward.add(cells, target, posteriors)
            backward.add(transposed, source, opposite)
        forward.update(learn_jumps=agree)
        backward.update(learn_jumps=agree)
    results: list[Matrix] = [np.empty((0, 0))] * len(text)
    for indices, source, target, keys in batches:
        cells = np.searchsorted(pairs, keys)
        posteriors = forward.infer(cells, target)
        opposite = backward.infer(cells.swapaxes(1, 2), source)
        links = np.sqrt(posteriors.links * opposite.links.swapaxes(1, 2))
        for index, matrix in zip(indices, links, strict=True):
            results[index] = matrix
    return results


def number_words(sentences: Sequence[Sequence[str]]) -> tuple[list[list[int]], int]:
    """Return the numbers of lowercase words, and the size of the vocabulary."""
    vocabulary: dict[str, int] = {}
    numbers = []
    for words in sentences:
        lower = map(str.lower, words)
        row = [vocabulary.setdefault(word, len(vocabulary)) for word in lower]
        numbers.append(row)
    return numbers, len(vocabulary)


def limit_links(posteriors: Posteriors, links: Cells) -> Posteriors:
    """Return posteriors with other links; what they leave has no source."""
    no_source = 1 - links.sum(2)
    return posteriors._replace(links=links, no_source=no_source)


def link_likely(weights: Matrix, threshold: float = THRESHOLD) -> Links:
    """Link words whose weight is above a threshold."""
    targets, sources = np.nonzero(weights > threshold)
    pairs = np.stack([sources, targets], 1)
    return frozenset(map(tuple, pairs.tolist()))
