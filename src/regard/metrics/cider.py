"""CIDEr-D (Vedantam 2015, 1411.5726, section 6): n-grams shared with the references, weighted by tf-idf.

Words are runs of letters and digits in lower case and are not stemmed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp, log, sqrt

from regard.metrics.rouge import words

LONGEST, SPREAD, SCALE = 4, 6.0, 10.0
Grams = Counter[tuple[str, ...]]


def cider(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over the outputs, times 10 as the paper has it and times 100 as tables have it: 0 to 1,000.

    The weight of an n-gram, n up to 4, is its count times the logarithm of the number of outputs divided by how many of
    their references have it. An output's count is clipped to the reference's; a Gaussian of deviation 6 penalises a
    difference in length. The score of a single output is 0, since no n-gram is rare then.
    """
    return sum(scores := ciders(outputs, references)) / max(1, len(scores))


def ciders(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """The score of each output among the others."""
    expected = [[grams(each) for each in several] for several in references]
    seen = Counter(
        gram
        for several in expected
        for gram in {gram for each in several for gram in each}
    )
    rarity = {gram: log(len(outputs) / count) for gram, count in seen.items()}
    unseen = log(max(1, len(outputs)))
    return [
        100
        * SCALE
        * sum(similarity(grams(output), each, rarity, unseen) for each in several)
        / len(several)
        for output, several in zip(outputs, expected, strict=True)
    ]


def grams(text: str) -> Grams:
    """All n-grams of a text, n from 1 to 4."""
    found = words(text)
    return Counter(
        tuple(found[at : at + n])
        for n in range(1, LONGEST + 1)
        for at in range(len(found) - n + 1)
    )


def similarity(
    found: Grams,
    expected: Grams,
    rarity: Mapping[tuple[str, ...], float],
    unseen: float,
) -> float:
    """The mean over n of the clipped cosine of two texts, times the length penalty: 0 to 1."""
    total = 0.0
    for n in range(1, LONGEST + 1):
        one, other = (
            {
                gram: count * rarity.get(gram, unseen)
                for gram, count in each.items()
                if len(gram) == n
            }
            for each in (found, expected)
        )
        sizes = sqrt(
            sum(x * x for x in one.values()) * sum(x * x for x in other.values())
        )
        common = sum(
            min(x, other[gram]) * other[gram]
            for gram, x in one.items()
            if gram in other
        )
        total += common / sizes if sizes else 0.0
    lengths = [
        sum(count for gram, count in each.items() if len(gram) == 1)
        for each in (found, expected)
    ]
    return total / LONGEST * exp(-((lengths[0] - lengths[1]) ** 2) / (2 * SPREAD**2))
