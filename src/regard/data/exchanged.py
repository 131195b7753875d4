"""Source and target in the wrong order, by the lengths and words of the sets."""

from collections.abc import Sequence
from statistics import median

from regard.data.pair import Pair

SAMPLE = 500
SHARE = 2.0
"""How much more of a side's words the other training side has than its own, if the sides are exchanged."""
KNOWN = 0.3
"""The least share of the words of an exchanged side that the other training side has."""
RATIO = 1.5
"""How many times as long a side is as the other one, if their lengths differ."""
COPIED = 3.0
"""How many times as long as its source a target is that is no summary or copy of it."""
FEW = 20
"""The fewest pairs of a set that are compared."""


def exchanged(train: Sequence[Pair], other: Sequence[Pair]) -> bool:
    """Whether the sources of another set are like the targets of the training set, and its targets like their sources:
    by their words, or by the same words and lengths the other way round."""
    if min(len(train), len(other)) < FEW:
        return False
    own, foreign = _sides(train), _sides(other)
    if own == foreign:
        return False
    words = [_words(side) for side in own]
    kept = [_known(words[side], foreign[side]) for side in (0, 1)]
    crossed = [_known(words[1 - side], foreign[side]) for side in (0, 1)]
    if all(
        there > max(KNOWN, SHARE * here)
        for here, there in zip(kept, crossed, strict=True)
    ):
        return True
    alike = all(SHARE * there > here for here, there in zip(kept, crossed, strict=True))
    first, second = _ratio(own), _ratio(foreign)
    return alike and (
        (first > RATIO and 1 / second > RATIO) or (1 / first > RATIO and second > RATIO)
    )


def longer_targets(pairs: Sequence[Pair]) -> float:
    """How many times as long as the sources the targets are."""
    return 1 / _ratio(_sides(pairs))


def _sides(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    some = pairs[:: max(1, len(pairs) // SAMPLE)]
    return [pair.source for pair in some], [pair.target for pair in some]


def _ratio(sides: tuple[list[str], list[str]]) -> float:
    source, target = (median(len(text) for text in side) for side in sides)
    return source / max(1, target)


def _parts(text: str) -> list[str]:
    """Words, and the characters of a text without blanks."""
    words = text.lower().split()
    return words if len(words) > 1 else list(text.lower())


def _words(texts: Sequence[str]) -> set[str]:
    return {part for text in texts for part in _parts(text)}


def _known(words: set[str], texts: Sequence[str]) -> float:
    """The share of the parts of texts that are among the words."""
    parts = [part for text in texts for part in _parts(text)]
    return sum(part in words for part in parts) / max(1, len(parts))
