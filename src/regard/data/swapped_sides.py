"""Source and target in the wrong order, by the words and lengths of the sets."""

from collections.abc import Sequence
from statistics import median

from regard.data.pairs import Pair

SAMPLE = 500
MORE_WORDS = 2.0
"""How much more of a side's words the other training side has, if sides are swapped."""
LEAST_WORDS = 0.3
"""The least share of the words of a swapped side that the other training side has."""
LENGTH_RATIO = 1.5
"""How many times as long as the other a side is, if their lengths differ."""
FEWEST = 20
"""The fewest pairs of a set that are compared."""


def are_sides_swapped(train: Sequence[Pair], pairs: Sequence[Pair]) -> bool:
    """Return whether the sources of a set are like the targets of the training set.

    They are by their words, or by the same words and lengths the other way round.
    """
    if min(len(train), len(pairs)) < FEWEST:
        return False
    words, train_ratio = _describe_sides(train)
    texts, ratio = _describe_sides(pairs)
    vocabularies = [set(side) for side in words]
    same, crossed = (
        [
            sum(word in vocabularies[abs(shift - side)] for word in texts[side])
            / max(1, len(texts[side]))
            for side in (0, 1)
        ]
        for shift in (0, 1)
    )
    if all(
        cross > max(LEAST_WORDS, MORE_WORDS * share)
        for share, cross in zip(same, crossed, strict=True)
    ):
        return True
    ratios = sorted((train_ratio, 1 / ratio))
    differ = ratios[0] > LENGTH_RATIO or ratios[1] < 1 / LENGTH_RATIO
    return differ and all(
        MORE_WORDS * cross > share for share, cross in zip(same, crossed, strict=True)
    )


def _describe_sides(pairs: Sequence[Pair]) -> tuple[list[list[str]], float]:
    """Return the words of sources and targets, and the ratio of their lengths.

    Of a text without blanks the words are its characters.
    """
    sample = pairs[:: max(1, len(pairs) // SAMPLE)]
    sources = [pair.source for pair in sample]
    targets = [pair.target for pair in sample]
    sides: list[list[str]] = []
    for texts in (sources, targets):
        words: list[str] = []
        for text in texts:
            parts = text.lower().split()
            words += parts if len(parts) > 1 else text.lower()
        sides.append(words)
    source = median(map(len, sources))
    target = median(map(len, targets))
    return sides, source / max(1, target)
