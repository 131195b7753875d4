"""ROUGE (Lin 2004): the overlap of an output's and a reference's words.

Each is an F-measure between 0 and 1. Words are runs of letters and digits in lower case and are not stemmed.
"""

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")


def rouge_n(output: str, reference: str, n: int) -> float:
    """ROUGE-N: n-grams in common, each counted as often as it is in both."""
    found, expected = (
        Counter(zip(*(words(text)[i:] for i in range(n)), strict=False))
        for text in (output, reference)
    )
    return f_measure((found & expected).total(), found.total(), expected.total())


def rouge_l(output: str, reference: str) -> float:
    """ROUGE-L: the longest sequence of words that is in both in the same order, gaps allowed."""
    found, expected = words(output), words(reference)
    return f_measure(longest_common(found, expected), len(found), len(expected))


def words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text.lower())


def f_measure(common: int, found: int, expected: int) -> float:
    """The harmonic mean of precision and recall; 0 where both sides are empty."""
    return 2 * common / (found + expected) if found + expected else 0.0


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = row
        row = [0]
        for place, other in enumerate(second):
            row.append(
                before[place] + 1
                if word == other
                else max(before[place + 1], row[place])
            )
    return row[-1]
