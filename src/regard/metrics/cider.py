"""CIDEr-D (Vedantam 2015, 1411.5726, section 6): how much of what references agree on, and others do not say, is said.

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

    n-grams, n up to 4, count by how often they occur times the logarithm of the number of outputs by how many of their
    references have them; an output's count of one is clipped to the reference's, and a difference in length is punished
    by a Gaussian of deviation 6. Of one output alone it is 0, since all that is said of it is said of everything.
    """
    return sum(scores := ciders(outputs, references)) / max(1, len(scores))


def ciders(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """That of each output among the others."""
    wanted = [[grams(each) for each in several] for several in references]
    seen = Counter(gram for several in wanted for gram in {gram for each in several for gram in each})
    rarity = {gram: log(len(outputs) / count) for gram, count in seen.items()}
    unseen = log(max(1, len(outputs)))
    return [
        100 * SCALE * sum(agreement(grams(output), each, rarity, unseen) for each in several) / len(several)
        for output, several in zip(outputs, wanted, strict=True)
    ]


def grams(text: str) -> Grams:
    """All n-grams of a text, n from 1 to 4."""
    found = words(text)
    return Counter(tuple(found[at : at + n]) for n in range(1, LONGEST + 1) for at in range(len(found) - n + 1))


def agreement(found: Grams, wanted: Grams, rarity: Mapping[tuple[str, ...], float], unseen: float) -> float:
    """The mean over n of the clipped cosine of two texts, times what their lengths leave of it: 0 to 1."""
    total = 0.0
    for n in range(1, LONGEST + 1):
        one, other = (
            {gram: count * rarity.get(gram, unseen) for gram, count in each.items() if len(gram) == n}
            for each in (found, wanted)
        )
        sizes = sqrt(sum(x * x for x in one.values()) * sum(x * x for x in other.values()))
        common = sum(min(x, other[gram]) * other[gram] for gram, x in one.items() if gram in other)
        total += common / sizes if sizes else 0.0
    lengths = [sum(count for gram, count in each.items() if len(gram) == 1) for each in (found, wanted)]
    return total / LONGEST * exp(-((lengths[0] - lengths[1]) ** 2) / (2 * SPREAD**2))
