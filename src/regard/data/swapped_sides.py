"""Source and target in the wrong order, by the lengths and words of the sets."""

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
COPIED = 3.0
"""How many times as long as its source a target is that is no summary or copy of it."""
FEWEST = 20
"""The fewest pairs of a set that are compared."""


def are_sides_swapped(train: Sequence[Pair], pairs: Sequence[Pair]) -> bool:
    """Whether the sources of a set are like the targets of the training set.

    They are by their words, or by the same words and lengths the other way round.
    """
    if min(len(train), len(pairs)) < FEWEST:
        return False
    train_sides, sides = _sample_sides(train), _sample_sides(pairs)
    if train_sides == sides:
        return False
    words = [{part for text in side for part in _split(text)} for side in train_sides]
    straight = [_share_of_words(words[side], sides[side]) for side in (0, 1)]
    crossed = [_share_of_words(words[1 - side], sides[side]) for side in (0, 1)]
    shares = list(zip(straight, crossed, strict=True))
    if all(cross > max(LEAST_WORDS, MORE_WORDS * same) for same, cross in shares):
        return True
    if not all(MORE_WORDS * cross > same for same, cross in shares):
        return False
    first, second = _length_ratio(train_sides), _length_ratio(sides)
    longer, shorter = max(first, 1 / second), min(first, 1 / second)
    return shorter > LENGTH_RATIO or longer < 1 / LENGTH_RATIO


def target_length_ratio(pairs: Sequence[Pair]) -> float:
    """Return how many times as long as the sources the targets are."""
    return 1 / _length_ratio(_sample_sides(pairs))


def _sample_sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    sample = pairs[:: max(1, len(pairs) // SAMPLE)]
    return [pair.source for pair in sample], [pair.target for pair in sample]


def _length_ratio(sides: tuple[list[str], list[str]]) -> float:
    source, target = (median(len(text) for text in side) for side in sides)
    return source / max(1, target)


def _split(text: str) -> list[str]:
    """Split a text into words, or into characters where it has no blanks."""
    words = text.lower().split()
    return words if len(words) > 1 else list(text.lower())


def _share_of_words(words: set[str], texts: Sequence[str]) -> float:
    """Return the share of the words of texts that are among the words."""
    parts = [part for text in texts for part in _split(text)]
    return sum(part in words for part in parts) / max(1, len(parts))
