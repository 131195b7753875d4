"""ROUGE (Lin 2004): how much of a reference's words an output has, and the other way round.

The figure is the mean over the texts of the F-measure in per cent. Words are runs of letters and digits in lower case
and are not stemmed.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

_WORD = re.compile(r"[^\W_]+")


def rouge_n(outputs: Sequence[str], references: Sequence[str], n: int) -> float:
    """ROUGE-N: n-grams in common, each counted as often as it is in both."""

    def common(output: list[str], reference: list[str]) -> tuple[int, int, int]:
        found, wanted = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (output, reference))
        return (found & wanted).total(), found.total(), wanted.total()

    return _mean(outputs, references, common)


def rouge_l(outputs: Sequence[str], references: Sequence[str]) -> float:
    """ROUGE-L: the longest sequence of words that is in both in the same order, gaps allowed."""

    def common(output: list[str], reference: list[str]) -> tuple[int, int, int]:
        return longest_common(output, reference), len(output), len(reference)

    return _mean(outputs, references, common)


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for word in first:
        before = row
        row = [0]
        for place, other in enumerate(second):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[place]))
    return row[-1]


def _mean(
    outputs: Sequence[str],
    references: Sequence[str],
    common: Callable[[list[str], list[str]], tuple[int, int, int]],
) -> float:
    total = 0.0
    for output, reference in zip(outputs, references, strict=True):
        both, found, wanted = common(*(_WORD.findall(text.lower()) for text in (output, reference)))
        total += 2 * both / (found + wanted) if found + wanted else 0.0
    return 100 * total / max(1, len(references))
