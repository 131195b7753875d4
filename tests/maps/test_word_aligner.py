"""The statistical aligner against the sum over all alignments, and on texts whose links are known."""

from itertools import product

import numpy as np
import pytest

from regard.maps import word_aligner
from regard.maps.word_aligner import NO_SOURCE, align_words, infer, link_likely

LONGEST = 2


def enumerate_alignments(emissions: np.ndarray, no_source: np.ndarray, jumps: np.ndarray):
    """Sum over each source position of each target word, with and without a link (Och & Ney 2003, equation 16)."""
    targets, sources = emissions.shape
    total, links, counts = 0.0, np.zeros_like(emissions), np.zeros_like(jumps)

    def transition(before: int, after: int) -> tuple[int, float]:
        distances = np.clip(np.arange(sources + 1) - before, -LONGEST, LONGEST) + LONGEST
        return distances[after], jumps[distances[after]] / jumps[distances].sum()

    for path in product(range(sources), (True, False), repeat=targets):
        positions, linked = path[::2], path[1::2]
        probability, before, used, steps = 1.0, -1, np.zeros_like(emissions), []
        for word, (position, is_linked) in enumerate(zip(positions, linked, strict=True)):
            if is_linked or word == 0:
                steps.append(transition(before, position))
            elif position != before:
                probability = 0.0
            probability *= (1 - NO_SOURCE) * emissions[word, position] if is_linked else NO_SOURCE * no_source[word]
            used[word, position] = is_linked
            before = position
        steps.append(transition(before, sources))
        probability *= np.prod([factor for _, factor in steps])
        total += probability
        links += probability * used
        np.add.at(counts, [distance for distance, _ in steps], probability)
    return links / total, counts / total, np.log(total)


@pytest.mark.parametrize(("targets", "sources"), [(1, 1), (1, 3), (3, 2), (3, 3), (2, 4)])
def test_posteriors_are_those_of_all_alignments(monkeypatch: pytest.MonkeyPatch, targets: int, sources: int):
    monkeypatch.setattr(word_aligner, "MAX_JUMP", LONGEST)
    random = np.random.default_rng(targets)
    emissions, no_source = random.random((2, targets, sources)), random.random((2, targets))
    jumps = random.random(2 * LONGEST + 1)
    posteriors = infer(emissions, no_source, jumps)
    expected = [enumerate_alignments(*sentence, jumps) for sentence in zip(emissions, no_source, strict=True)]
    links, counts, likelihoods = zip(*expected, strict=True)
    np.testing.assert_allclose(posteriors.links, links, rtol=1e-12)
    np.testing.assert_allclose(posteriors.no_source, 1 - np.array(links).sum(2), rtol=1e-12)
    np.testing.assert_allclose(posteriors.jumps, sum(counts), rtol=1e-12)
    assert posteriors.log_likelihood == pytest.approx(sum(likelihoods), rel=1e-12)


def translate_at_random(sentences: int):
    """Sentences of eight of forty words, two neighbors of which change places; the target adds a word without source.

    Returns:
        The text and the links.
    """
    random = np.random.default_rng(1)
    text, links = [], []
    for _ in range(sentences):
        words = random.choice(40, 8, replace=False)
        order = np.arange(8)
        first = random.integers(7)
        order[[first, first + 1]] = order[[first + 1, first]]
        target = [f"T{words[index]}" for index in order]
        extra = random.integers(9)
        target.insert(extra, "of")
        text.append(([f"s{word}" for word in words], target))
        links.append({(int(i), j + (j >= extra)) for j, i in enumerate(order)})
    return text, links


def test_learns_the_links_of_a_generated_text():
    text, links = translate_at_random(150)
    weights = align_words(text)
    assert weights[0].shape == (9, 8)
    results = list(map(link_likely, weights))
    pairs = list(zip(results, links, strict=True))
    assert all(result <= correct for result, correct in pairs)
    assert sum(map(len, results)) >= 0.97 * sum(map(len, links))
    upper = [([word.upper() for word in source], target) for source, target in text]
    assert np.array_equal(align_words(upper)[0], weights[0])
